"""A mistyped command, placement, op or cost is answered with the nearest name; completion knows the commands."""

import pytest

from simtool.cli.main import run
from simtool.errors import PlacementError, UsageError
from simtool.profile.whatif import with_change
from simtool.step.placement import parse_placement, resolve_placement
from tests.replay.synthetic import constant_costs, profile_of


def test_commands(capsys):
    assert run(["reply"]) == 2
    assert "did you mean 'replay'?" in capsys.readouterr().err
    assert run(["xyz"]) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_placements_ops_and_costs():
    with pytest.raises(PlacementError, match="did you mean 'lag-overlap'"):
        resolve_placement("lag-overlp")
    with pytest.raises(PlacementError, match="did you mean 'launch_draft'"):
        parse_placement("mine", "schedule launch_drft", None)
    with pytest.raises(UsageError, match="did you mean 'decide'"):
        with_change(profile_of(constant_costs(pre=1_000, duration=5_000)), "decid=0")


def test_bash_completes_a_command(capsys, monkeypatch):
    for name, value in {"_SIMTOOL_COMPLETE": "complete_bash", "COMP_WORDS": "simtool rep", "COMP_CWORD": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        run([])
    assert capsys.readouterr().out.split() == ["replay", "report"]

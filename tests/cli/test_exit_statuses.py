"""One rule for exit statuses, told in docs/scripting.md: 0 answered, 1 no answer to act on, 2 bad use."""

from __future__ import annotations

from pathlib import Path

import pytest

from simtool.cli.main import run
from simtool.cli.registry import COMMANDS
from tests.synthetic import make_trace

ROOT = Path(__file__).parents[2]
TRACE = str(ROOT / "traces" / "sl7-lag")
COSTS = ("--profile", str(ROOT / "models" / "profiles" / "measured-sl7.json"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three interleaved recordings each of a fast and a slow machine under two placements, and one more pair."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        (name, turn, scale): str(
            make_trace(folder / f"{name}-{turn}-{scale}", name, noise_seed=turn, requests=12, host_scale=scale).path
        )
        for name in ("static", "lag")
        for turn in range(3)
        for scale in (1.0, 4.0)
    }


def test_a_verdict_that_tells_is_0_and_one_that_cannot_is_1(runs, capsys):
    static = [runs["static", turn, 1.0] for turn in range(3)]
    slower = [runs["lag", turn, 4.0] for turn in range(3)]
    assert run(["compare", *static, *slower]) == 0
    assert "nothing beats static" in capsys.readouterr().out
    assert run(["compare", static[0], slower[0]]) == 1
    assert "cannot tell lag from static" in capsys.readouterr().out
    # a table whose lines cannot be told is whole all the same
    assert run(["power", *static, *slower]) == 0


def test_a_live_run_beside_a_replay_alone_says_why_nothing_is_compared(runs, tmp_path, capsys):
    modeled = make_trace(tmp_path / "modeled", "lag", origin="replayed", requests=12)
    assert run(["compare", runs["static", 0, 1.0], str(modeled.path)]) == 1
    said = capsys.readouterr().out
    assert "live: static is alone, so there is nothing to compare it with; lag (modeled): of another origin" in said
    assert "simtool replay TRACE --policy A --policy B" in said


def test_advice_that_cannot_be_given_is_1(tmp_path, capsys):
    assert run(["advise", TRACE, *COSTS, "--policy", "lag", "--seeds", "3"]) == 0
    assert capsys.readouterr().out.startswith("Leave it off")
    at_16 = (str(ROOT / "traces" / "sl16-lag"), "--profile", str(ROOT / "models" / "profiles" / "measured-sl16.json"))
    assert run(["advise", *at_16, "--policy", "lag", "--seeds", "3", "--concurrency", "4"]) == 1
    assert capsys.readouterr().out.startswith("Cannot tell")


def test_a_placement_left_out_of_all_is_1_and_one_asked_for_by_name_is_2(tmp_path, capsys):
    """Costs of static alone know of no decision."""
    assert run(["calibrate", str(ROOT / "traces" / "sl7-static"), "--out", str(tmp_path / "costs.json")]) == 0
    capsys.readouterr()
    costs = ("--profile", str(tmp_path / "costs.json"))
    assert run(["replay", TRACE, *costs, "--policy", "all"]) == 1
    assert "lag: not replayed: " in capsys.readouterr().err
    assert run(["replay", TRACE, *costs, "--policy", "lag"]) == 2


@pytest.mark.parametrize(
    "command",
    [("replay", TRACE), ("advise", TRACE), ("sweep", TRACE), ("record", "--out", "x"), ("validate", "--out", "x")],
)
def test_a_placement_given_twice_is_2_everywhere(command, capsys):
    assert run([*command, "--policy", "lag", "--policy", "lag"]) == 2
    assert capsys.readouterr().err == "simtool: --policy lag is given twice; give each placement once\n"


def test_all_and_a_name_among_them_is_each_once(capsys):
    assert run(["replay", TRACE, *COSTS, "--policy", "all", "--policy", "lag"]) == 0
    assert capsys.readouterr().out.count("lag gives") == 1


def test_the_page_tells_each_commands_finding():
    page = (ROOT / "docs" / "scripting.md").read_text()
    for name, listed in COMMANDS.items():
        assert f"| `{name}` | {listed.finding or 'never'} |" in page

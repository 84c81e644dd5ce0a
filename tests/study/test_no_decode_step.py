"""A trace whose requests all end at their first token has no decode step: every study says so, the report too."""

import pytest

from simtool.cli.main import run
from simtool.profile.storage import save_profile
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.placement import BUILT_IN
from tests.replay.synthetic import Asked, Work, constant_costs, profile_of, save_as_live, source_trace


@pytest.fixture(scope="module")
def prefills(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefills")
    source = source_trace(folder / "source", Work(3, tuple(Asked(f"r{i}", 5, 1, 1) for i in range(8)), {}))
    profile = profile_of(constant_costs(pre=1_000, duration=5_000))
    save_profile(profile, folder / "p.json")
    replayed = replay(source, profile, Scenario(BUILT_IN["static"], 2))
    replayed.save(folder / "replayed")
    save_as_live(replayed, folder / "live")
    return folder


@pytest.mark.parametrize("command", ["sweep", "tornado", "break-even", "search", "lags"])
def test_studies_refuse_it_in_one_line(prefills, command, capsys, tmp_path):
    options = ["--out", str(tmp_path / "s.csv")] if command == "sweep" else []
    assert run([command, str(prefills / "live"), "--profile", str(prefills / "p.json"), *options]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("simtool: ")
    assert "no request emits more than one token, so there is no decode step to study" in error


@pytest.mark.filterwarnings("error")
def test_the_report_of_a_replay_calls_it_modeled(prefills, capsys, tmp_path):
    assert run(["report", str(prefills / "replayed"), "--out", str(tmp_path / "r.html")]) == 0
    assert "modeled: no request went beyond its first token" in capsys.readouterr().out

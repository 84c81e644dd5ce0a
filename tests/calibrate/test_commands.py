"""`simtool calibrate` and `simtool replay`, from the command line."""

import json

import polars as pl
import pytest

from simtool.cli.main import run
from simtool.profile.storage import load_profile
from simtool.replay import passing
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN
from simtool.trace.trace import open_trace
from tests.replay.synthetic import constant_costs, profile_of, random_work, save_as_live, source_trace

CONTROLLER = ControllerSettings(LinearPredictor(0.5, 0.25, 0.0))


@pytest.fixture
def recorded(tmp_path):
    """Traces of four placements over the same requests, at constant costs; outcomes at every anchor."""
    source = source_trace(tmp_path / "source", random_work(3, 5, 8))
    profile = profile_of(constant_costs(pre=1_000, duration=5_000))
    for name in ("static", "this-step", "lag", "lag-overlap"):
        save_as_live(replay(source, profile, Scenario(BUILT_IN[name], 2, CONTROLLER)), tmp_path / name)
    return tmp_path


def calibrated(recorded):
    traces = [str(recorded / name) for name in ("static", "this-step", "lag", "lag-overlap")]
    assert run(["calibrate", *traces, "--out", str(recorded / "p.json")]) == 0
    return str(recorded / "p.json")


def test_calibrate_writes_a_profile_and_prints_its_costs(recorded, capsys):
    calibrated(recorded)
    printed = capsys.readouterr()
    for word in ("decide", "target", "kept out of the fit", "loop_gap"):
        assert word in printed.out
    assert "predictor: validate ms" in printed.err
    profile = load_profile(recorded / "p.json")
    assert profile.provenance.command == "simtool calibrate static this-step lag lag-overlap"
    assert "read_confidence" in profile.decode.host


def test_calibrate_names_its_output_after_the_input_and_keeps_what_is_there(recorded, capsys):
    assert run(["calibrate", str(recorded / "lag"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["profile"] == str(recorded / "lag.profile.json")
    assert {"step", "lane", "what", "intercept_ns", "quality"} <= document["costs"][0].keys()
    assert run(["calibrate", str(recorded / "lag")]) == 2
    assert "pass --force" in capsys.readouterr().err
    assert run(["calibrate", str(recorded / "lag"), "--force"]) == 0


def test_replay_prints_a_line_per_placement_and_writes_traces(recorded, capsys):
    profile = calibrated(recorded)
    capsys.readouterr()
    out = recorded / "out"
    command = ["replay", str(recorded / "lag"), "--policy", "all", "--profile", profile, "--predictor", "trace"]
    command += ["--out", str(out), "--json"]
    assert run(command) == 0
    lines = json.loads(capsys.readouterr().out)["runs"]
    assert [line["placement"] for line in lines] == ["static", "this-step", "lag", "lag-overlap"]
    assert all(line["origin"] == "replayed" for line in lines)
    again = open_trace(out / "lag-lag-overlap").table("steps")
    assert again["end_ns"].to_list() == open_trace(recorded / "lag-overlap").table("steps")["end_ns"].to_list()
    assert run(command) == 2


def test_replay_calibrates_from_the_trace_and_says_so(recorded, capsys):
    assert run(["replay", str(recorded / "lag"), "--policy", "lag"]) == 0
    assert "calibrated from lag itself" in capsys.readouterr().err


def test_what_was_not_recorded_gets_a_stand_in_that_says_so(recorded, capsys):
    assert run(["replay", str(recorded / "lag"), "--policy", "all"]) == 0
    assert (
        "warning: this-step: read_confidence was not recorded: priced like store_confidence" in capsys.readouterr().err
    )


def test_what_if(recorded):
    """100 us more in an op that nothing hides: every decode step of this-step is 100 us longer."""
    command = ["replay", str(recorded / "this-step"), "--policy", "this-step", "--out"]
    assert run([*command, str(recorded / "before")]) == 0
    assert run([*command, str(recorded / "after"), "--set", "decide=+100us"]) == 0
    before, after = (open_trace(recorded / name / "this-step-this-step") for name in ("before", "after"))
    assert "what-if: decide=+100us" in after.manifest.warnings
    durations = [
        (steps["end_ns"] - steps["start_ns"]).to_list()
        for steps in (trace.table("steps").filter(pl.col("kind") == "decode") for trace in (before, after))
    ]
    assert [longer - shorter for shorter, longer in zip(*durations, strict=True)] == [100_000] * len(durations[0])


def test_lag_option(recorded, capsys):
    command = ["replay", str(recorded / "lag"), "--policy", "lag", "--lag", "2", "--json"]
    assert run(command) == 0
    assert json.loads(capsys.readouterr().out)["runs"][1]["placement"] == "lag-2"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "fastest"], "unknown placement 'fastest'"),
        (["--policy", "static", "--lag", "2"], "--lag has no effect on static"),
        (["--policy", "static", "--predictor", "none"], "--predictor has no effect on static"),
        (["--policy", "lag", "--predictor", "magic"], "'magic' is not one of"),
        (["--policy", "lag", "--seed", "3"], "--seed and --seeds have no effect"),
        (["--policy", "lag", "--arrivals", "poisson:often"], "--arrivals is 'poisson:often'"),
        (["--policy", "lag", "--arrivals", "poisson"], "arrivals poisson without a rate"),
        (["--policy", "lag", "--noise", "white"], "'white' is not one of"),
        (["--policy", "lag", "--outcomes", "guess"], "'guess' is not one of"),
        (["--policy", "lag", "--set", "tidy=0"], "no cost 'tidy' to change"),
        (["--policy", "lag", "--concurrency", "0"], "concurrency is 0"),
    ],
)
def test_bad_use_is_one_line(recorded, capsys, options, message):
    assert run(["replay", str(recorded / "lag"), *options]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert message in error


def test_a_large_replay_that_is_not_kept_goes_through_the_disk_and_says_the_same(recorded, capsys, monkeypatch):
    profile = calibrated(recorded)
    capsys.readouterr()
    told = []
    for many in (passing._MANY_TOKENS, 0):
        monkeypatch.setattr(passing, "_MANY_TOKENS", many)
        for command in ("replay", "why", "tornado"):
            assert run([command, str(recorded / "lag"), "--profile", profile, "--policy", "lag", "--json"]) == 0
        assert run(["lags", str(recorded / "lag"), "--profile", profile, "--json"]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]

"""`simtool replay` honours an option or refuses it: what has no effect is said in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from simtool.calibrate.fit import calibrate
from simtool.cli.main import run
from simtool.errors import SimtoolError
from simtool.profile.storage import save_profile
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.placement import BUILT_IN
from simtool.trace.trace import open_trace, write_trace
from tests.replay.synthetic import constant_costs, profile_of, random_work, save_as_live, source_trace


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    source = source_trace(tmp_path / "source", random_work(3, 5, 8))
    profile = profile_of(constant_costs(pre=1_000, duration=5_000))
    for name in ("static", "lag"):
        save_as_live(replay(source, profile, Scenario(BUILT_IN[name], 2)), tmp_path / name)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> tuple[int, str]:
    status = run(["replay", str(path), *options])
    return status, capsys.readouterr().err


def test_a_change_that_no_placement_pays_is_refused(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for change in ("decide=0", "device.fill_varlen=x2"):
        status, error = told(capsys, traces / "lag", "--policy", "static", "--set", change)
        assert status == 2
        assert f"'{change}' has no effect: static never runs {change.partition('=')[0].split('.')[-1]}" in error
    for policy in ("all", "lag"):
        assert told(capsys, traces / "lag", "--policy", policy, "--set", "decide=0", "--set", "loop_gap=0")[0] == 0
    assert told(capsys, traces / "lag", "--policy", "static", "--set", "launch_prefill=0")[0] == 0


def test_lag_goes_to_the_placements_that_have_one(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(traces / "lag"), "--policy", "all", "--lag", "2", "--json"]) == 0
    printed = capsys.readouterr()
    names = [line["placement"] for line in json.loads(printed.out)["runs"]]
    assert names == ["static", "this-step", "lag-2", "lag-overlap-2"]
    assert "--lag 2 does not touch static, this-step" in printed.err
    status, error = told(capsys, traces / "lag", "--policy", "static", "--policy", "this-step", "--lag", "2")
    assert (status, "--lag has no effect on static, this-step" in error) == (2, True)
    status, error = told(capsys, traces / "lag", "--policy", "lag", "--lag", "0")
    assert (status, "--policy this-step" in error) == (2, True)


def test_proxies_are_told_once_and_only_where_they_are_needed(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, error = told(capsys, traces / "lag", "--policy", "lag", "--policy", "static")
    assert "not recorded" not in error
    _, error = told(capsys, traces / "lag", "--policy", "all", "--out", str(traces / "out"))
    (line,) = [line for line in error.splitlines() if "not recorded" in line]
    assert line.startswith("warning: this-step: read_confidence was not recorded: priced like store_confidence")
    assert any("not recorded" in warning for warning in open_trace(traces / "out/lag-this-step").manifest.warnings)
    assert not any("not recorded" in warning for warning in open_trace(traces / "out/lag-lag").manifest.warnings)


def test_without_full_occupancy_there_is_no_steady_state(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, error = told(capsys, traces / "lag", "--policy", "lag", "--concurrency", "64")
    assert status == 0
    assert "lag, lag: no steady tok/s, the peak batch was " in error
    assert " of 64 slots" in error
    assert run(["replay", str(traces / "lag"), "--policy", "lag", "--concurrency", "64", "--json"]) == 0
    for line in json.loads(capsys.readouterr().out)["runs"]:
        assert line["steady_tokens_per_s"] is None
        assert line["whole_run_tokens_per_s"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--arrivals", "burst"], "--arrivals is 'burst'; expected closed, trace, trace:RATE or poisson:RATE"),
        (["--noise", "loud"], "'--noise': Value error, 'loud' is not one of 'none', 'residual'"),
        (["--outcomes", "some"], "'--outcomes': Value error, 'some' is not one of 'strict', 'resample'"),
        (["--profile", "lag"], "lag: is a folder, not a profile; fit one with `simtool calibrate lag`"),
        (["--profile", "lag/manifest.json"], "is the manifest of a trace, not a profile; fit one with"),
    ],
)
def test_a_wrong_value_is_one_line_that_says_what_it_is(
    options: list[str],
    message: str,
    traces: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(traces)
    status, error = told(capsys, Path("lag"), "--policy", "lag", *options)
    assert (status, message in error) == (2, True), error


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (pl.col("lane") == "host", "no host costs of prefill steps: the recordings that it was fitted on"),
        (pl.col("op") == "build_prefill", "'build_prefill' in a prefill step, which every placement runs; pool a"),
    ],
)
def test_costs_without_timed_prefill_steps_say_what_is_missing(missing: pl.Expr, message: str, traces: Path) -> None:
    lag = open_trace(traces / "lag")
    prefills = lag.table("steps").filter(pl.col("kind") == "prefill")["step"].implode()
    tables = {name: lag.table(name) for name in ("requests", "steps", "rows", "events", "outcomes")}
    events = tables["events"].filter(~(pl.col("step").is_in(prefills) & missing))
    cut = write_trace(traces / "cut", lag.manifest, {**tables, "events": events})
    profile = calibrate([cut], name="cut", command="test", created="2026-01-01")
    with pytest.raises(SimtoolError, match=re.escape(message)):
        replay(cut, profile, Scenario(BUILT_IN["lag"], 2))


@pytest.mark.parametrize("arrivals", ["trace", "trace:5"])
def test_a_closed_loop_has_no_arrivals_to_replay(
    arrivals: str, traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, error = told(capsys, traces / "lag", "--policy", "lag", "--arrivals", arrivals)
    assert (status, f"--arrivals {arrivals}: lag is a closed loop" in error) == (2, True)
    out = ("--arrivals", "poisson:100000", "--out", str(traces / "open"))
    assert told(capsys, traces / "lag", "--policy", "lag", *out)[0] == 0
    save_profile(profile_of(constant_costs(pre=1_000, duration=5_000)), traces / "costs.json")
    priced = ("--policy", "lag", "--profile", str(traces / "costs.json"))
    assert told(capsys, traces / "open/lag-lag", *priced, "--arrivals", arrivals)[0] == 0


def test_a_file_is_no_trace(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, error = told(capsys, traces / "lag/manifest.json", "--policy", "lag")
    assert (status, f"give its folder, {traces / 'lag'}" in error) == (2, True)


def test_the_profile_names_the_command_that_fitted_it(
    traces: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["simtool", "calibrate", str(traces / "lag")])
    assert run(["replay", str(traces / "lag"), "--policy", "lag", "--out", str(traces / "out")]) == 0
    profile = open_trace(traces / "out/lag-lag").manifest.details["profile"]
    assert isinstance(profile, dict)
    assert profile["command"] == "simtool calibrate"


def test_the_controllers_settings_can_be_others_than_the_traces(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def replayed(*options: str) -> str:
        with_predictor = ("--policy", "this-step", "--predictor", "profile", "--json", *options)
        assert run(["replay", str(traces / "lag"), *with_predictor]) == 0
        return capsys.readouterr().out

    recorded = replayed()
    assert replayed("--draft-ms", "0") == recorded
    assert replayed("--min-gain", "0.99") != recorded


def test_a_controllers_setting_without_effect_or_sense_is_refused(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, error = told(capsys, traces / "lag", "--policy", "static", "--draft-ms", "2")
    assert (status, "--draft-ms has no effect on static" in error) == (2, True)
    status, error = told(capsys, traces / "lag", "--policy", "lag", "--min-gain", "-1")
    assert (status, "--min-gain is -1.0; expected 0 or more" in error) == (2, True)


def test_the_manifest_says_which_simulator_it_was(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SimPy for one replay, the compiled one for several seeds, or what is asked for; their tables are the same."""
    common = ("replay", str(traces / "lag"), "--policy", "lag", "--noise", "residual", "--force")
    wanted = {
        "plain": ((), "simpy"),
        "asked": (("--simulator", "compiled"), "compiled"),
        "seeds": (("--seeds", "2"), "compiled"),
        "seeds-simpy": (("--seeds", "2", "--simulator", "simpy"), "simpy"),
    }
    found = {}
    for name, (options, simulator) in wanted.items():
        assert run([*common, *options, "--out", str(traces / "out" / name)]) == 0, capsys.readouterr().err
        found[name] = [open_trace(path) for path in sorted((traces / "out" / name).iterdir())]
        assert {trace.manifest.details["simulator"] for trace in found[name]} == {simulator}
    for one, other in (("plain", "asked"), ("seeds", "seeds-simpy")):
        for left, right in zip(found[one], found[other], strict=True):
            assert all(left.table(name).equals(right.table(name)) for name in ("steps", "rows", "events", "requests"))


def test_replays_are_not_put_into_a_trace(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, error = told(capsys, traces / "lag", "--policy", "lag", "--out", str(traces / "lag"))
    assert (status, "is a trace; give --out a folder to put the replayed traces into" in error) == (2, True)


def test_a_gain_in_percent_is_refused(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(traces / "lag"), "--policy", "this-step", "--min-gain", "5"]) == 2
    assert "--min-gain is 5.0; expected a share below 1, such as 0.05 for 5 %" in capsys.readouterr().err

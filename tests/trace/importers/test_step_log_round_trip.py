"""A recording, exported as a profile and a step log and imported again, is the recording."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from simtool.calibrate.fit import calibrate
from simtool.cli.main import run
from simtool.errors import TraceError
from simtool.profile.profile import Profile
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.placement import BUILT_IN
from simtool.trace.checks.check import Severity, check_trace
from simtool.trace.trace import Trace, open_trace

RECORDED = Path(__file__).parents[3] / "traces"


@pytest.fixture(scope="module", params=["sl7-lag", "sl7-lag by rules", "sl7-static"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, Trace]:
    """A shipped recording, and the same after export and import. By rules: the log tells no op, a rule file does."""
    name, _, by_rules = request.param.partition(" ")
    folder, recorded = tmp_path_factory.mktemp("trip"), str(RECORDED / name)
    profile, log = str(folder / "profile.json.gz"), folder / "run.steps.jsonl"
    assert run(["export", recorded, "--format", "torch-profiler", "--out", profile]) == 0
    assert run(["export", recorded, "--format", "step-log", "--out", str(log)]) == 0
    if by_rules:
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        log.write_text("".join(json.dumps({k: v for k, v in line.items() if k != "ops"}) + "\n" for line in lines))
    rules = ["--map", "xllm"] if by_rules else []
    assert run(["import", "--step-log", str(log), profile, *rules, "--out", str(folder / "imported")]) == 0
    return open_trace(Path(recorded)), open_trace(folder / "imported")


def _ranked(trace: Trace) -> pl.DataFrame:
    """Events with flows numbered by the order of their host ops, for flows are names only."""
    events = trace.table("events").select(
        "step", "op", "lane", "start_ns", "end_ns", "wait_start_ns", "wait_end_ns", "flow", "bytes"
    )
    starts = events.filter(pl.col("lane") == "host").select("flow", host_ns="start_ns")
    ranked = events.join(starts, on="flow").with_columns(flow=pl.col("host_ns").rank("dense").cast(pl.Int64))
    return ranked.drop("host_ns").sort("start_ns", "lane", "op")


def test_the_tables_are_the_same(both: tuple[Trace, Trace]) -> None:
    recorded, imported = both
    assert imported.manifest.origin == "imported"
    assert _ranked(imported).equals(_ranked(recorded))
    assert imported.table("rows").equals(recorded.table("rows"))
    assert imported.table("steps").equals(recorded.table("steps"))
    unkept = ("output_margin",)
    assert imported.table("requests").drop(unkept).equals(recorded.table("requests").drop(unkept))
    visited = recorded.table("outcomes").filter(pl.col("source") == "visited").drop("draft_margin")
    known = imported.table("outcomes").drop("draft_margin")
    told = visited.join(known, on=["request_id", "anchor_position"], suffix="_imported", how="full")
    assert told.height == visited.height
    assert (told["confidence"] == told["confidence_imported"]).all()
    runs = told.drop_nulls(["match_run", "match_run_imported"])
    assert (runs["match_run"] == runs["match_run_imported"]).all()
    assert not [finding for finding in check_trace(imported) if finding.severity is Severity.ERROR]
    assert imported.manifest.models == recorded.manifest.models
    assert imported.manifest.device_name == recorded.manifest.device_name


def _calibrated(trace: Trace) -> Profile:
    return calibrate([trace], name="p", command="test", created="2026-01-01")


def _costs(profile: Profile) -> dict[str, float]:
    found: dict[str, float] = {"loop_gap": profile.loop_gap.intercept_ns}
    for kind in ("prefill", "decode"):
        steps = profile.steps(kind)
        for op, host in steps.host.items():
            costs = {"pre": host.pre, "post": host.post, "wake": host.wake, **host.launches}
            found |= {f"{kind} {op} {name}": cost.intercept_ns for name, cost in costs.items() if cost}
            found |= {f"{kind} {op} per {name}": slope for name, slope in host.pre.per_feature_ns.items()}
        for work, cost in steps.device.items():
            found[f"{kind} {work}"] = cost.duration.intercept_ns
            found |= {f"{kind} {work} per {name}": slope for name, slope in cost.duration.per_feature_ns.items()}
    return found


def test_a_profile_of_it_is_the_profile_of_the_recording(both: tuple[Trace, Trace]) -> None:
    recorded, imported = map(_calibrated, both)
    assert _costs(imported) == pytest.approx(_costs(recorded), rel=1e-9, abs=1e-6)
    assert imported.executors == recorded.executors
    assert imported.predictor == recorded.predictor
    assert imported.models == recorded.models


def test_a_replay_of_it_emits_the_same_tokens(both: tuple[Trace, Trace]) -> None:
    recorded, imported = both
    profile = _calibrated(recorded)
    scenario = Scenario(BUILT_IN["static"], recorded.manifest.concurrency)
    if recorded.placement.name != "static":  # another order visits anchors that only the recording's outcomes hold
        with pytest.raises(TraceError, match="no outcome at anchor"):
            replay(imported, profile, scenario)
        return
    replays = [replay(trace, profile, scenario) for trace in (recorded, imported)]
    for table in ("steps", "rows", "events"):
        assert replays[0].tables[table].equals(replays[1].tables[table]), table


def test_with_gaps_it_is_replayed_when_asked(
    both: tuple[Trace, Trace], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded, imported = both
    command = ["replay", str(imported.path), "--policy", "this-step"]
    profile = str(RECORDED.parent / "models" / "profiles" / "measured-sl7.json")
    assert run([*command, "--profile", profile]) == 2  # strict: an anchor is missing
    assert "an import holds those that its run visited" in capsys.readouterr().err
    assert run([*command, "--profile", profile, "--outcomes", "resample", "--out", str(tmp_path / "o")]) == 0
    assert run(["compare", str(recorded.path), str(imported.path)]) == 1  # of two origins
    assert run(["lags", str(imported.path), "--profile", profile, "--lag", "1"]) == 0

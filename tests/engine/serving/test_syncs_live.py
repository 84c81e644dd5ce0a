"""Ops that sync, live: the host really waits there, before it launches kernels; the tokens stay the target's own."""

import polars as pl
import pytest

from simtool.analysis.divergence import mismatches
from simtool.calibrate.fit import calibrate
from simtool.engine.devices.cpu.device import CpuDevice
from simtool.engine.devices.virtual import TimedDevice, VirtualClock, same_durations
from simtool.engine.outcomes.teacher_forced import TeacherForcedPass
from simtool.engine.serving.session import RunPlan, Session
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN, XLLM_ARMS, with_sync
from simtool.trace.checks.check import check_trace
from simtool.trace.checks.finding import Severity
from simtool.trace.outcome_coverage import add_outcomes, requests_without_outcomes
from simtool.trace.trace import open_trace
from tests.engine import golden
from tests.engine.small_runs import random_prompts, reference, requests, runner

PROMPTS = random_prompts(5, (6, 11, 3))
PRUNING = ControllerSettings(LinearPredictor(1.0, 0.1, 0.0))
TOKENS = 12
EVERYWHERE = with_sync(BUILT_IN["lag"], ["build_query", "launch_draft", "build_dense", "fill_varlen", "launch_verify"])


def record(path, placement, name="dspark_b7", device=None):
    spec = golden.spec(name)
    device = device or TimedDevice(runner(spec), same_durations(1_000), VirtualClock(tick_ns=7))
    Session(device, spec).record(path, RunPlan(requests(PROMPTS, TOKENS), placement, PRUNING), force=True)
    return open_trace(path)


def check_waits(trace):
    """Every op that syncs, and no other beside those that always block, waited; and for all that it reads."""
    placement, events = trace.placement, trace.table("events")
    steps = trace.table("steps").filter(kind="decode")
    assert steps["pruned"].any() or not placement.decides
    seen = set()
    for step, pruned in steps.select("step", "pruned").iter_rows():
        mine = events.filter(step=step)
        ops = {op.name: op for op in placement.ops(pruned=pruned)}
        works = {work: (start, end) for work, start, end in
                 mine.filter(pl.col("lane") != "host").select("op", "start_ns", "end_ns").iter_rows()}  # fmt: skip
        for name, wait_start_ns, wait_end_ns in (
            mine.filter(lane="host").select("op", "wait_start_ns", "wait_end_ns").iter_rows()
        ):
            assert (wait_start_ns is not None) == ops[name].blocks
            if not ops[name].syncs:
                continue
            seen.add(name)
            givers = [op for op in ops.values() if set(op.gives) & set(ops[name].needs) and op.works]
            for giver in givers:
                assert works[giver.works[-1].name][1] <= wait_end_ns
            for early in ops[name].early_works:
                assert works[early.name][1] <= wait_end_ns
            for late in ops[name].late_works:
                assert works[late.name][0] >= wait_end_ns
    assert seen == {op.name for op in placement.ever_runs() if op.syncs}


@pytest.mark.parametrize("name", ["dspark_b7", "dflash_b16"])
@pytest.mark.parametrize("placement", [*XLLM_ARMS.values(), EVERYWHERE], ids=lambda p: p.file_stem)
def test_the_host_waits_where_the_placement_says(tmp_path, name, placement):
    trace = record(tmp_path / "live", placement, name)
    assert trace.placement == placement
    assert [found for found in check_trace(trace) if found.severity != Severity.NOTE] == []
    outputs = dict(trace.table("requests").select("request_id", "output_ids").iter_rows())
    for index, prompt in enumerate(PROMPTS):
        assert outputs[f"r{index:02d}"] == reference(name, prompt, TOKENS)
    check_waits(trace)


def test_on_the_cpu_device_it_really_waits(tmp_path):
    with_device = CpuDevice(golden.spec("dspark_b7"))
    try:
        check_waits(record(tmp_path / "live", XLLM_ARMS["xllm-2280/lag"], device=with_device))
    finally:
        with_device.close()


@pytest.mark.parametrize("placement", XLLM_ARMS.values(), ids=lambda p: p.file_stem)
def test_a_replay_repeats_the_live_tokens(tmp_path, placement):
    """Costs and outcomes of the recording itself: the same rows in every step."""
    live = record(tmp_path / "live", placement)
    models = runner(golden.spec("dspark_b7"))
    teacher_forced = TeacherForcedPass(models._target, models._draft, 7)
    live = add_outcomes(live, {name: teacher_forced.outcomes(*ids) for name, *ids in requests_without_outcomes(live)})
    profile = calibrate([live], name="test", command="test", created="2026-01-01")
    for op in placement.ever_runs():
        assert not op.syncs or op.priced_as in profile.decode.host
        assert not op.syncs or op.name not in profile.decode.host or op.name == "launch_verify"
    replayed = replay(live, profile, Scenario(placement, live.manifest.concurrency, PRUNING))
    rows, wrong = mismatches(live, replayed.trace(tmp_path / "replayed"))
    assert rows > 0
    assert wrong == 0
    assert replayed.manifest.placement == placement.to_dict()


def test_a_run_without_confidence_keeps_none(tmp_path):
    trace = record(tmp_path / "live", XLLM_ARMS["xllm-2280/static"])
    rows = trace.table("rows")
    assert rows["confidence"].null_count() == rows["draft_prob"].null_count() == len(rows)
    assert rows["draft_tokens"].null_count() == 0
    assert trace.table("outcomes").is_empty()

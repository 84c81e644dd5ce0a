"""The next draft launched before the tokens are published: live, the tokens are the target's own, and a replay's."""

import polars as pl
import pytest

from simtool.analysis.divergence import mismatches
from simtool.calibrate.fit import calibrate
from simtool.engine.devices.cpu.device import CpuDevice
from simtool.engine.devices.virtual import TimedDevice, VirtualClock, same_durations
from simtool.engine.outcomes.teacher_forced import TeacherForcedPass
from simtool.engine.runner.spec import SamplingConfig
from simtool.engine.serving.session import RunPlan, Session
from simtool.errors import UsageError
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import AHEAD_ARMS, BUILT_IN, with_lag, with_sync
from simtool.trace.checks.check import check_trace
from simtool.trace.checks.finding import Severity
from simtool.trace.outcome_coverage import add_outcomes, requests_without_outcomes
from simtool.trace.trace import open_trace
from tests.engine import golden
from tests.engine.small_runs import PLACEMENTS, random_prompts, reference, requests, runner, serve

PROMPTS = random_prompts(5, (6, 11, 3, 4, 9, 2, 7))
TOKENS = (12, 40, 33, 25, 1, 18, 30)
PRUNING = ControllerSettings(LinearPredictor(1.0, 0.1, 0.0))
ARMS = {
    **AHEAD_ARMS,
    "lag-ahead-3": with_lag(AHEAD_ARMS["lag-ahead"], 3),
    "syncs": with_sync(AHEAD_ARMS["lag-ahead"], ["fill_varlen", "launch_draft", "extend_context"]),
}


def record(path, placement, name="dspark_b7", device=None):
    spec = golden.spec(name)
    device = device or TimedDevice(runner(spec), same_durations(1_000), VirtualClock(tick_ns=7))
    Session(device, spec).record(path, RunPlan(requests(PROMPTS, TOKENS), placement, PRUNING), force=True)
    return open_trace(path)


def check_tokens(trace, name):
    assert [found for found in check_trace(trace) if found.severity != Severity.NOTE] == []
    outputs = dict(trace.table("requests").select("request_id", "output_ids").iter_rows())
    for index, (prompt, tokens) in enumerate(zip(PROMPTS, TOKENS, strict=True)):
        assert outputs[f"r{index:02d}"] == reference(name, prompt, tokens)


def launched_ahead(trace):
    """Steps that launched the next draft before their tokens were awaited, and those that drafted for themselves."""
    host = trace.table("events").filter(lane="host").select("step", "op")
    ahead, own = (set(host.filter(op=op)["step"]) for op in ("advance_query", "build_query"))
    return ahead, own


@pytest.mark.parametrize("name", ["dspark_b7", "dflash_b16"])
@pytest.mark.parametrize("arm", ARMS)
def test_the_tokens_are_the_targets_own(tmp_path, name, arm):
    trace = record(tmp_path / "live", ARMS[arm], name)
    check_tokens(trace, name)
    steps = trace.table("steps").filter(kind="decode")
    assert steps["pruned"].any() or not ARMS[arm].decides
    ahead, own = launched_ahead(trace)
    assert ahead
    assert own
    # whoever drafted for itself, or had it drafted ahead: never both, never neither
    for step in steps["step"]:
        assert (step in own) != (step - 1 in ahead and steps.filter(step=step - 1).height == 1) or step in own


def test_what_is_recorded_of_a_block_is_what_was_verified(tmp_path):
    """Rows of a run that launches ahead hold the same blocks and confidences as those of one that does not."""
    columns = ("request_id", "anchor_position", "confidence", "draft_prob", "draft_tokens", "accepted", "emitted")
    for ahead, plain in (("static-ahead", "static"), ("this-step-ahead", "this-step")):
        tables = []
        for placement in (AHEAD_ARMS[ahead], BUILT_IN[plain]):
            rows = record(tmp_path / placement.name, placement).table("rows")
            tables.append(rows.select(columns).sort("request_id", "anchor_position"))
        assert tables[0].drop("confidence", "draft_prob").equals(tables[1].drop("confidence", "draft_prob"))
        for column in ("confidence", "draft_prob"):
            pairs = zip(tables[0][column].explode(), tables[1][column].explode(), strict=True)
            assert all(one == pytest.approx(other, abs=1e-5) for one, other in pairs)


@pytest.mark.parametrize("arm", ["static-ahead", "this-step-ahead", "lag-ahead"])
def test_on_the_cpu_device(tmp_path, arm):
    device = CpuDevice(golden.spec("dspark_b7"))
    try:
        trace = record(tmp_path / "live", ARMS[arm], device=device)
    finally:
        device.close()
    check_tokens(trace, "dspark_b7")
    ahead, _ = launched_ahead(trace)
    host = trace.table("events").filter(lane="host", op="await_tokens").filter(pl.col("step").is_in(list(ahead)))
    drafts = dict(trace.table("events").filter(op="draft").filter(pl.col("lane") != "host")
                  .group_by("step").agg(pl.col("start_ns").max()).iter_rows())  # fmt: skip
    # the draft of the next block was launched before the tokens of this one were on the host
    launches = dict(trace.table("events").filter(lane="host", op="launch_draft")
                    .group_by("step").agg(pl.col("start_ns").max()).iter_rows())  # fmt: skip
    for step, wait_end_ns in host.select("step", "wait_end_ns").iter_rows():
        assert launches[step] < wait_end_ns
        assert step in drafts


@pytest.mark.parametrize("arm", ARMS)
def test_a_replay_repeats_the_live_tokens_and_which_steps_launched_ahead(tmp_path, arm):
    live = record(tmp_path / "live", ARMS[arm])
    models = runner(golden.spec("dspark_b7"))
    teacher_forced = TeacherForcedPass(models._target, models._draft, 7)
    live = add_outcomes(live, {name: teacher_forced.outcomes(*ids) for name, *ids in requests_without_outcomes(live)})
    profile = calibrate([live], name="test", command="test", created="2026-01-01")
    replayed = replay(live, profile, Scenario(ARMS[arm], live.manifest.concurrency, PRUNING))
    again = replayed.trace(tmp_path / "replayed")
    rows, wrong = mismatches(live, again)
    assert rows > 0
    assert wrong == 0
    ops = [
        trace.table("events").filter(lane="host").sort("start_ns", "flow").select("step", "op")
        for trace in (live, again)
    ]
    assert ops[0].equals(ops[1])


def test_it_cannot_take_turns_step_by_step(tmp_path):
    session = Session(TimedDevice(runner(golden.spec("dspark_b7")), same_durations(1_000)), golden.spec("dspark_b7"))
    jobs = [(tmp_path / arm, RunPlan(requests(PROMPTS[:2], 4), ARMS[arm])) for arm in ("static-ahead", "lag-ahead")]
    with pytest.raises(UsageError, match="static-ahead leaves work on the device"):
        session.record_interleaved(jobs)
    assert not list(tmp_path.iterdir())


def test_stop_tokens_end_a_request_and_drop_what_was_launched_for_it():
    """An end by a stop token is not foreseen: the draft launched ahead of it is thrown away, and no token with it."""
    spec = golden.spec("dspark_b7")
    prompts = requests(PROMPTS[:4], 30)
    for stop in range(3):
        plain, _ = serve(spec, prompts, PLACEMENTS["static"], stop=frozenset({stop}))
        for arm in AHEAD_ARMS.values():
            ahead, kept = serve(spec, prompts, arm, stop=frozenset({stop}), controller=PRUNING)
            assert ahead.output_ids == plain.output_ids
            assert any(s.warm for s in kept.decodes)


def test_sampled_tokens_are_those_of_the_same_step_without_launching_ahead(tmp_path):
    spec = golden.spec("dspark_b7", sampling=SamplingConfig(temperature=1.0, seed=3))
    prompts = requests(PROMPTS, TOKENS)
    plain, _ = serve(spec, prompts, BUILT_IN["static"])
    ahead, _ = serve(spec, prompts, AHEAD_ARMS["static-ahead"])
    assert ahead.output_ids == plain.output_ids

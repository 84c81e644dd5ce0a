"""Runs that take turns: each on its own clock and share of the device, with the tokens it would have had alone."""

from simtool.engine.devices.protocol import WorkTiming
from simtool.engine.devices.virtual import TimedDevice, VirtualClock, same_durations
from simtool.engine.prompts.prompt import Prompt
from simtool.engine.runner.runner import load_runner
from simtool.engine.serving.interleave import PausableClock
from simtool.engine.serving.session import RunPlan, Session
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.ops import Lane
from simtool.step.placement import BUILT_IN
from simtool.trace.checks.check import Severity, check_trace
from simtool.trace.trace import open_trace
from tests.engine import golden


def test_a_clock_stands_still_outside_its_turns():
    now = [100]
    clock = PausableClock(lambda: now[0])
    start = clock()
    now[0] = 250
    assert clock() == start
    clock.resume()
    now[0] = 260
    assert clock() == start + 10
    placed = clock.place([WorkTiming(1, "draft", Lane.COMPUTE, 252, 258, 0)])
    assert (placed[0].start_ns, placed[0].end_ns) == (start + 2, start + 8)
    clock.pause()
    now[0] = 900
    assert clock() == start + 10


def test_runs_in_turn_emit_what_each_would_alone_and_leave_clean_traces(tmp_path):
    cases = golden.cases("dspark_b7")
    prompts = [Prompt(f"r{i}", tuple(c["prompt"]), len(c["output"]), key=i) for i, c in enumerate(cases)]
    spec = golden.spec("dspark_b7", slots=9)
    device = TimedDevice(load_runner(spec), same_durations(1000), VirtualClock(tick_ns=7), one_executor=True)
    session = Session(device, spec)
    controller = ControllerSettings(LinearPredictor(1.0, 0.3, 0.0))
    arms = ("static", "this-step", "lag-overlap")
    jobs = [(tmp_path / arm, RunPlan(prompts, BUILT_IN[arm], controller)) for arm in arms]
    in_turn = session.record_interleaved(jobs)
    for (path, plan), result in zip(jobs, in_turn, strict=True):
        trace = open_trace(path)
        assert [result.output_ids[p.request_id] for p in prompts] == [c["output"] for c in cases]
        assert [f for f in check_trace(trace) if f.severity is not Severity.NOTE] == []
        assert trace.manifest.concurrency == 3
        assert trace.manifest.details["in_turns_with"] == [arm for arm in arms if arm != path.name]
        alone = Session(device, golden.spec("dspark_b7", slots=3)).run(plan)
        assert alone.steps == result.steps


def test_a_job_without_a_path_keeps_nothing(tmp_path):
    spec = golden.spec("dspark_b7", slots=2)
    device = TimedDevice(load_runner(spec), same_durations(1000), VirtualClock(tick_ns=7), one_executor=True)
    plan = RunPlan([Prompt("a", (1, 2, 3), 5)], BUILT_IN["static"])
    quiet, kept = Session(device, spec).record_interleaved([(None, plan), (tmp_path / "kept", plan)])
    assert quiet.output_ids == kept.output_ids
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]

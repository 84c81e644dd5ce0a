"""The instrument stays out of what it measures: nothing of it lies in an op, and what it need not do is not done."""

import polars as pl
import pytest

from simtool.engine.devices.cpu.device import CpuDevice
from simtool.engine.devices.event_pool import EventPool
from simtool.engine.devices.virtual import TimedDevice, VirtualClock, same_durations
from simtool.engine.models.heads import probability_of
from simtool.engine.serving.recorder import Recorder
from simtool.engine.serving.session import RunPlan, Session
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import NAMED
from simtool.trace.trace import open_trace
from tests.engine import golden
from tests.engine.small_runs import random_prompts, requests, runner

SPEC = golden.spec("dspark_b7")
PROMPTS = random_prompts(8, (6, 11, 3))
PRUNING = ControllerSettings(LinearPredictor(1.0, 0.1, 0.0))
MS = 1_000_000


class SlowToRead(TimedDevice):
    """A device that takes a millisecond to tell its times, and another to read what is observed."""

    def timings(self):
        self.now_ns.advance_to(self.now_ns() + MS)
        return super().timings()

    def observe(self, names):
        self.now_ns.advance_to(self.now_ns() + MS)
        return super().observe(names)


class KeepsTimings(Recorder):
    """Has device work timed and keeps nothing else."""

    times_work = True

    def __init__(self, now_ns):
        super().__init__(now_ns)
        self.kept = []

    def end_step(self, s, timings):
        self.kept.extend(timings)


def device(kind):
    return kind(runner(SPEC), same_durations(1_000), VirtualClock(tick_ns=1))


def recorded(path, kind, placement="lag"):
    Session(device(kind), SPEC).record(path, RunPlan(requests(PROMPTS, 12), NAMED[placement], PRUNING))
    return open_trace(path)


def since_its_step(trace):
    """Every event and the step's end, counted from the step's start."""
    steps = trace.table("steps").select("step", "end_ns", began="start_ns")
    times = ("start_ns", "end_ns", "wait_start_ns", "wait_end_ns")
    events = trace.table("events").join(steps.select("step", "began"), on="step")
    own = events.with_columns(pl.col(name) - pl.col("began") for name in times).drop("began")
    return own, steps.select("step", length_ns=pl.col("end_ns") - pl.col("began"))


@pytest.mark.parametrize("placement", ["lag", "xllm-2280/lag"])
def test_what_is_read_after_a_step_takes_no_time_of_it(tmp_path, placement):
    quick, slow = (
        since_its_step(recorded(tmp_path / "a", TimedDevice, placement)),
        since_its_step(recorded(tmp_path / "b", SlowToRead, placement)),
    )
    assert quick[0].equals(slow[0])
    assert quick[1].equals(slow[1])


def test_a_run_that_takes_turns_has_no_time_of_it_at_all(tmp_path):
    """Its clock stands still while it is kept: every stamp is the same one."""
    found = []
    for name, kind in (("quick", TimedDevice), ("slow", SlowToRead)):
        plan = RunPlan(requests(PROMPTS, 12), NAMED["lag"], PRUNING)
        Session(device(kind), SPEC).record_interleaved([(tmp_path / name / "a", plan), (tmp_path / name / "b", plan)])
        found.append([open_trace(tmp_path / name / arm) for arm in "ab"])
    for quick, slow in zip(*found, strict=True):
        for table in ("steps", "events"):
            assert quick.table(table).equals(slow.table(table))


def test_a_recording_reads_no_more_inside_a_step_than_a_silent_run(tmp_path):
    """read_tokens moves tokens, counts and soundness, whether anybody keeps a trace or not."""
    trace = recorded(tmp_path / "a", TimedDevice)
    reads = trace.table("events").filter(pl.col("op") == "read_tokens", pl.col("lane") == "copy")
    joined = reads.join(trace.table("steps").filter(kind="decode").select("step", "batch"), on="step")
    per_sequence = joined["bytes"] / joined["batch"]
    assert per_sequence.unique().to_list() == [(7 + 1) * 8 + 8 + 1]


def test_untimed_work_leaves_no_timing_and_later_work_does():
    silent = device(TimedDevice)
    Session(silent, SPEC).run(RunPlan(requests(PROMPTS, 12), NAMED["lag"], PRUNING))
    assert silent.timings() == []
    assert silent.timed
    timed = KeepsTimings(silent.now_ns)
    Session(silent, SPEC).run(RunPlan(requests(PROMPTS, 12), NAMED["lag"], PRUNING), timed)
    assert {work.work for work in timed.kept} >= {"draft", "target", "verify"}


def test_the_cpu_device_observes_without_a_timing():
    cpu = CpuDevice(SPEC)
    try:
        Session(cpu, SPEC).run(RunPlan(requests(PROMPTS, 4), NAMED["lag"], PRUNING))
        assert cpu.timings() == []
        cpu.observe(("draft_tokens", "confidence", "draft_prob", "verify_margin"))
        assert cpu.timings() == []
    finally:
        cpu.close()


def test_events_are_made_once_and_used_again():
    """A thousand steps of 40 works each, all of a step under way at once."""
    made = []

    def make(*, enable_timing):
        made.append(enable_timing)
        return object()

    pool = EventPool(make)
    for _ in range(1_000):
        taken = [(pool.take(timed=timed), timed) for timed in (True, False) for _ in range(40)]
        assert len({id(event) for event, _ in taken}) == 80
        for event, timed in taken:
            pool.give_back(event, timed=timed)
    assert pool.made == len(made) == 80


def test_greedy_runs_do_not_reckon_what_no_token_depends_on():
    one = runner(SPEC)
    Session(TimedDevice(one, same_durations(1_000)), SPEC).run(RunPlan(requests(PROMPTS, 4), NAMED["lag"], PRUNING))
    assert set(one._unreckoned) == {"draft_prob", "verify_margin"}
    block = one._draft_block()
    expected = probability_of(block.tokens, block.logits)
    assert one.output("draft_prob").equal(expected)
    assert "draft_prob" not in one._unreckoned


def test_a_confidence_that_is_a_probability_is_reckoned():
    """DFlash decides by it, so `sample` gives it."""
    spec = golden.spec("dflash_b16")
    one = runner(spec)
    prompts = requests(random_prompts(5, (6, 11)), 4)
    Session(TimedDevice(one, same_durations(1_000)), spec).run(RunPlan(prompts, NAMED["lag"], PRUNING))
    assert "draft_prob" not in one._unreckoned
    assert one.output("draft_prob").equal(one.output("confidence"))

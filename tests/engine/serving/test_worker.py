"""The worker runs the placement's ops in its order, and puts device work behind what it needs."""

from __future__ import annotations

import pytest

from simtool.engine.devices.virtual import TimedDevice, VirtualClock, same_durations
from simtool.engine.serving.session import RunPlan, Session
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.ops import CATALOGUE
from simtool.step.placement import PREFILL_ORDER
from simtool.trace.trace import open_trace
from tests.engine import golden
from tests.engine.small_runs import PLACEMENTS, random_prompts, requests, runner

SPEC = golden.spec("dspark_b7", slots=3)
#: Some steps prune and some do not.
CONTROLLER = ControllerSettings(LinearPredictor(1.0, 0.1, 0.0))


@pytest.fixture(scope="module", params=PLACEMENTS)
def recorded(request, tmp_path_factory):
    """A trace of one placement on streams of their own, uploads slower than kernels so that every wait shows."""
    durations = {**same_durations(3_000), "build_query": 50_000, "build_dense": 90_000, "build_varlen": 70_000}
    device = TimedDevice(runner(SPEC), durations, VirtualClock(tick_ns=100))
    plan = RunPlan(requests(random_prompts(8, [5, 9, 4, 12, 7]), 12), PLACEMENTS[request.param], CONTROLLER)
    path = tmp_path_factory.mktemp("worker") / "bundle"
    Session(device, SPEC).record(path, plan)
    return open_trace(path)


def steps_of(trace):
    for step, kind, pruned in trace.table("steps").select("step", "kind", "pruned").iter_rows():
        events = trace.table("events").filter(step=step)
        yield kind, pruned, events.filter(lane="host").sort("flow"), events.filter(~(events["lane"] == "host"))


def test_host_ops_run_in_the_placements_order(recorded):
    kinds = set()
    for kind, pruned, host, _ in steps_of(recorded):
        expected = PREFILL_ORDER if kind == "prefill" else recorded.placement.ops(pruned=pruned)
        assert host["op"].to_list() == [op.name for op in expected]
        kinds.add((kind, pruned))
    assert {("prefill", False), ("decode", recorded.placement.decides)} <= kinds


def test_every_op_launches_the_device_work_of_the_catalogue(recorded):
    for _, _, host, device in steps_of(recorded):
        for op, flow in host.select("op", "flow").iter_rows():
            works = [(work.name, work.lane) for work in CATALOGUE[op].works]
            launched = device.filter(flow=flow).sort("start_ns", "end_ns")
            assert sorted(launched.select("op", "lane").iter_rows()) == sorted(works)


def test_device_work_starts_after_the_work_that_gives_what_it_needs(recorded):
    for kind, _, host, device in steps_of(recorded):
        done_ns: dict[str, int] = {}
        for op, flow in host.select("op", "flow").iter_rows():
            launched = device.filter(flow=flow)
            ready_ns = [done_ns[need] for need in CATALOGUE[op].needs if need in done_ns]
            if launched.height and ready_ns:
                assert launched["start_ns"].max() >= max(ready_ns), f"{op} in a {kind} step"
            if launched.height:
                done_ns |= dict.fromkeys(CATALOGUE[op].gives, launched["end_ns"].max())


def test_only_blocking_ops_wait_and_their_wait_covers_their_work(recorded):
    for _, _, host, device in steps_of(recorded):
        for op, flow, start_ns, end_ns, wait_start_ns, wait_end_ns in host.select(
            "op", "flow", "start_ns", "end_ns", "wait_start_ns", "wait_end_ns"
        ).iter_rows():
            assert (wait_start_ns is not None) == CATALOGUE[op].blocks
            if wait_start_ns is not None:
                assert start_ns < wait_start_ns <= wait_end_ns <= end_ns
                assert wait_end_ns >= device.filter(flow=flow)["end_ns"].max()


def test_the_silent_and_the_writing_recorder_block_the_host_equally_often(tmp_path):
    """No device sync is added by recording: as many reads and waits, and as many works."""

    class Counting(TimedDevice):
        waits = works = 0

        def wait(self, event):
            self.waits += 1
            super().wait(event)

        def _run(self, *args):
            self.works += 1
            return super()._run(*args)

    counts = []
    for record in (False, True):
        device = Counting(runner(SPEC), same_durations(1_000))
        plan = RunPlan(requests(random_prompts(8, [5, 9, 4, 12]), 12), PLACEMENTS["lag"], CONTROLLER)
        session = Session(device, SPEC)
        if record:
            session.record(tmp_path / "bundle", plan)
        else:
            session.run(plan)
        counts.append((device.waits, device.works))
    assert counts[0] == counts[1]
    found = open_trace(tmp_path / "bundle")  # what is observed rides on a read that is made anyway
    assert found.table("requests")["output_margin"].null_count() == 0
    assert found.table("outcomes").height > 0

"""Eager spans that the host's launching sets: found by hand, and said by calibrate."""

import dataclasses

import pytest

from simtool.calibrate.fit import calibrate
from simtool.calibrate.launch_bound import is_launch_bound
from simtool.calibrate.step_events import OpRecord, WorkRecord
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.ops import CATALOGUE, syncing
from simtool.step.placement import BUILT_IN
from tests.replay.synthetic import (
    ONE_DEVICE,
    STREAMS,
    Line,
    constant_costs,
    profile_of,
    random_work,
    save_as_live,
    source_trace,
)


@pytest.mark.parametrize(
    ("start_ns", "end_ns", "bound"),
    [
        (110, 195, True),  # over before the host has returned
        (110, 208, True),  # all but over
        (110, 260, False),  # the device has most of it left
        (210, 300, False),  # began after the launching
        (110, 140, False),  # one short kernel
    ],
)
def test_a_span_by_hand(start_ns, end_ns, bound):
    """launch_target is busy from 100 to 200."""
    record = OpRecord(CATALOGUE["launch_target"], 100, 200, None, None)
    assert is_launch_bound(record, WorkRecord("target", "compute", start_ns, end_ns)) == bound


def test_what_was_launched_after_a_wait_is_held_against_what_follows_the_wait():
    record = OpRecord(syncing(CATALOGUE["launch_verify"]), 100, 500, 120, 400)
    assert is_launch_bound(record, WorkRecord("verify", "compute", 410, 495), late=True)
    assert not is_launch_bound(record, WorkRecord("verify", "compute", 410, 495))


@pytest.mark.parametrize(("executors", "said"), [(STREAMS, True), (ONE_DEVICE, False)])
def test_calibrate_says_it(tmp_path, executors, said):
    """The target's kernels are launched one by one: it starts with its op and ends with it."""
    costs = constant_costs(pre=1_000, duration=500, host_launch_target=60_000, device_target=60_000)
    launch = {("decode", "launch_target", "target"): Line(-60_000)}
    source = source_trace(tmp_path / "source", random_work(3, 5, 8))
    made = profile_of(dataclasses.replace(costs, launch=launch), executors)
    live = save_as_live(replay(source, made, Scenario(BUILT_IN["static"], 2)), tmp_path / "live")
    warnings = calibrate([live], name="test", command="test", created="2026-01-01").provenance.warnings
    found = [warning for warning in warnings if "ended when the host had launched" in warning]
    assert [warning.split()[5] for warning in found] == (["target"] if said else [])

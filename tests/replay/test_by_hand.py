"""Steps short enough to work out on paper. Every host op takes 10 ns, draft 100, sample 20, target 200, verify 10.

Other device work takes nothing, and nothing is late: work is ready when its op ends and the host learns at once.
Host times of a step below are read from left to right; "|" marks where it waits for the device.
"""

import dataclasses

import pytest

from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN
from tests.replay.synthetic import (
    STREAMS,
    Asked,
    Line,
    Work,
    constant_costs,
    profile_of,
    source_trace,
)

COSTS = constant_costs(pre=10, device_draft=100, device_sample=20, device_target=200, device_verify=10)
#: A row costs so much that nothing with confidence 0 is worth verifying: every decided step prunes to p = 0.
PRUNE = ControllerSettings(LinearPredictor(0.0, 1.0, 0.0))


def last_step_ns(tmp_path, placement, costs=COSTS, controller=PRUNE, executors=None):
    """One request whose drafts never match: a prefill, then decode steps of one token."""
    outcomes = {("a", anchor): ([0.0, 0.0], 0) for anchor in range(4, 10)}
    source = source_trace(tmp_path / "source", Work(2, (Asked("a", 4, 6, 6),), outcomes), concurrency=1)
    profile = profile_of(costs, executors) if executors else profile_of(costs)
    steps = replay(source, profile, Scenario(BUILT_IN[placement], 1, controller)).tables["steps"]
    assert steps["kind"].to_list() == ["prefill", *["decode"] * 5]
    return steps["end_ns"][-1] - steps["start_ns"][-1]


@pytest.mark.parametrize(
    ("placement", "expected_ns"),
    [
        # 9 ops until read_tokens has launched at 100. draft 40-140, sample 140-160, target 160-360, verify 360-370.
        # |370 write_context 380 finish 390.
        ("static", 390),
        # read_confidence launched at 70, |160 decide 170 build_varlen 180 fill_varlen 190 launch_target 200:
        # the device idles 160-200. target 200-400, verify 400-410. |410 write_context 420 finish 430.
        ("this-step", 430),
        # decide, build_varlen and fill_varlen run while the draft does: target 160-360, verify 370 as in static.
        # |370 store_confidence 380 write_context 390 finish 400.
        ("lag", 400),
        # decide before build_query: the draft starts at 50 instead of 40, and all that follows is 10 later.
        ("lag-overlap", 410),
        # decide behind launch_draft: the draft starts at 40 again.
        ("lag-overlap-late", 400),
        # build_fill_index replaces fill_varlen's first half, one host op more, all under the draft.
        ("lag-overlap-index", 400),
    ],
)
@pytest.mark.parametrize("executors", [None, STREAMS])
def test_step_time(tmp_path, placement, expected_ns, executors):
    assert last_step_ns(tmp_path, placement, executors=executors) == expected_ns


def test_the_host_learns_late_of_done_work(tmp_path):
    """50 ns at each of static's two waits: read_tokens (device done at 370) and write_context (done at its launch)."""
    wake = {("decode", op): Line(50) for op in ("read_tokens", "write_context")}
    assert last_step_ns(tmp_path, "static", dataclasses.replace(COSTS, wake=wake)) == 390 + 50 + 50


def test_a_wake_up_that_is_over_before_the_wait_costs_nothing(tmp_path):
    """read_confidence copies at 70 and is busy until 270: done at 160, told at 260, the wait from 270 is none."""
    slow = {**COSTS.pre, ("decode", "read_confidence"): Line(210)}
    launch = {("decode", "read_confidence", "read_confidence"): Line(-200)}
    costs = dataclasses.replace(COSTS, pre=slow, launch=launch, wake={("decode", "read_confidence"): Line(100)})
    # |270 decide 280 build_varlen 290 fill_varlen 300 launch_target 310: target 310-510, verify 520, then two ops.
    assert last_step_ns(tmp_path, "this-step", costs) == 540


def test_a_late_launch_delays_the_device(tmp_path):
    late = dataclasses.replace(COSTS, launch={("decode", "launch_draft", "draft"): Line(5)})
    assert last_step_ns(tmp_path, "static", late) == 395


def test_a_launch_before_the_op_ends_starts_the_device_early(tmp_path):
    """The enqueueing call returns 4 ns after the work is out: draft 36-136."""
    early = dataclasses.replace(COSTS, launch={("decode", "launch_draft", "draft"): Line(-4)})
    assert last_step_ns(tmp_path, "static", early) == 386


def test_queue_distance_counts_behind_running_work_only(tmp_path):
    """sample behind draft and target behind sample are 3 ns apart; draft finds its executor idle since long."""
    queue = {("decode", work): Line(3) for work in ("draft", "sample", "target")}
    costs = dataclasses.replace(COSTS, queue=queue)
    assert last_step_ns(tmp_path, "static", costs, executors=STREAMS) == 396


def test_two_requests_share_a_step(tmp_path):
    """Cost grows with the batch: 7 ns of `finish` per sequence, one sequence in the last step and two before."""
    costs = dataclasses.replace(COSTS, pre={**COSTS.pre, ("decode", "finish"): Line(0, {"batch": 7})})
    outcomes = {(name, anchor): ([0.0, 0.0], 0) for name in "ab" for anchor in range(4, 10)}
    asked = (Asked("a", 4, 3, 3), Asked("b", 4, 4, 4))
    source = source_trace(tmp_path / "source", Work(2, asked, outcomes))
    steps = replay(source, profile_of(costs), Scenario(BUILT_IN["static"], 2)).tables["steps"]
    assert steps["batch"].to_list() == [2, 2, 2, 1]
    assert (steps["end_ns"] - steps["start_ns"]).to_list()[1:] == [380 + 14, 380 + 14, 380 + 7]

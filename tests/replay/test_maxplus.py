"""SimPy against the max-plus recurrence: the same times to the nanosecond, the same tokens, whatever is drawn."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simtool.replay.replay import replay
from simtool.replay.scenario import Arrivals, Scenario
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN, NAMED, with_lag, with_sync
from tests.replay.maxplus import evaluate
from tests.replay.synthetic import (
    ONE_DEVICE,
    STREAMS,
    profile_of,
    random_costs,
    random_work,
    source_trace,
    with_history,
)

PLACEMENTS = {
    **NAMED,
    "lag-2": with_lag(BUILT_IN["lag"], 2),
    "overlap-3": with_lag(BUILT_IN["lag-overlap"], 3),
    "static-syncs": with_sync(BUILT_IN["static"], ["build_dense", "fill_dense", "launch_target"]),
    "index-syncs": with_sync(BUILT_IN["lag-overlap-index"], ["build_query", "build_fill_index", "-|launch_verify"]),
}
EXECUTORS = (ONE_DEVICE, STREAMS, {"prepare": "copies", "compute": "compute", "copy": "copies"})
CONTROLLERS = (
    ControllerSettings(LinearPredictor(0.5, 0.25, 0.001), draft_ms=0.0, min_gain=0.0),
    ControllerSettings(LinearPredictor(0.0, 1.0, 0.0), draft_ms=1.0, min_gain=0.05),
    ControllerSettings(),
)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(sorted(PLACEMENTS)),
    executors=st.sampled_from(EXECUTORS),
    drafts=st.integers(1, 5),
    requests=st.integers(1, 6),
    concurrency=st.integers(1, 4),
    controller=st.sampled_from(CONTROLLERS),
    spread_ns=st.sampled_from((0, 3_000, 100_000)),
    history=st.booleans(),
)
def test_agrees_with_the_recurrence(
    seed, name, executors, drafts, requests, concurrency, controller, spread_ns, history
):
    work, costs, placement = random_work(seed, drafts, requests), random_costs(seed), PLACEMENTS[name]
    if history:  # costs that depend on what ran just before
        costs = with_history(costs, seed)
    asked = tuple(replace(one, arrival_ns=i * spread_ns) for i, one in enumerate(work.requests))
    work = replace(work, requests=asked)
    expected = evaluate(work, costs, placement, executors, concurrency, controller)
    scenario = Scenario(placement, concurrency, controller, Arrivals("trace"))
    with tempfile.TemporaryDirectory() as folder:
        source = source_trace(Path(folder) / "source", work)
        tables = replay(source, profile_of(costs, executors), scenario).tables
    steps = tables["steps"].select("kind", "start_ns", "end_ns").rows()
    assert steps == expected.steps
    columns = ("step", "op", "lane", "start_ns", "end_ns", "wait_start_ns", "wait_end_ns")
    assert sorted(tables["events"].select(columns).rows(), key=repr) == sorted(expected.events, key=repr)
    columns = ("step", "request_id", "anchor_position", "prefix_len", "accepted", "emitted", "fresh")
    assert sorted(tables["rows"].select(columns).rows()) == sorted(expected.rows)


@pytest.mark.parametrize("name", sorted(PLACEMENTS))
def test_the_drawn_cases_prune(name):
    """Guards the test above: with these controllers a deciding placement really takes both branches."""
    work = random_work(7, 5, 6)
    line = evaluate(work, random_costs(7), PLACEMENTS[name], ONE_DEVICE, 2, CONTROLLERS[0])
    prefixes = {row[3] for row in line.rows}
    assert (prefixes == {5}) == (not PLACEMENTS[name].decides)

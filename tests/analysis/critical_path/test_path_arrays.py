"""The arrays against the path written a second time, on every kind of run."""

import random

import polars as pl
import pytest

from simtool.analysis.critical_path.critical_path import critical_path
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.order_search import legal_orders
from simtool.step.placement import BUILT_IN
from simtool.trace.schema import TABLES
from tests.analysis.critical_path.stepwise import stepwise
from tests.replay.synthetic import ONE_DEVICE, STREAMS, profile_of, random_costs, random_work, source_trace
from tests.synthetic import EXECUTORS, make_trace

CONTROLLER = ControllerSettings(LinearPredictor(0.5, 0.25, 0.0))


def check(steps, events, executors):
    segments, ran = stepwise(steps, events, executors)
    found = critical_path(steps, events, executors)
    mine = found.segments.drop("exposed_ns").rows()
    assert mine == sorted(segments, key=lambda row: (row[0], row[4], row[5]))
    expected = pl.DataFrame(ran, schema=["step", "op", "lane", "ns", "slack_ns"], orient="row")
    expected = expected.group_by("step", "op", "lane").agg(pl.col("ns").sum(), pl.col("slack_ns").min())
    ops = found.ops.filter(pl.col("slack_ns").is_not_null()).select("step", "op", "lane", "duration_ns", "slack_ns")
    assert sorted(ops.rows()) == sorted(expected.rows())


@pytest.mark.parametrize("executors", [ONE_DEVICE, STREAMS])
@pytest.mark.parametrize("seed", range(4))
def test_replays_with_random_costs(tmp_path, seed, executors):
    """Many costs are zero, so that work ties, starts before its launch returns, and outlasts its step."""
    source = source_trace(tmp_path / "source", random_work(seed, 3, 5))
    placement = [*BUILT_IN.values(), legal_orders(1).placements[seed * 11]][seed * 2 % 7]
    tables = replay(source, profile_of(random_costs(seed), executors), Scenario(placement, 2, CONTROLLER)).tables
    check(tables["steps"], tables["events"], executors)


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_toy_runs(tmp_path, name):
    trace = make_trace(tmp_path / name, name)
    check(trace.table("steps"), trace.table("events"), EXECUTORS)


@pytest.mark.parametrize("seed", range(6))
def test_shuffled_times(tmp_path, seed):
    """Events moved and stretched at random: work carried over steps, host ops that overlap, steps cut short."""
    draw = random.Random(seed)
    trace = make_trace(tmp_path / "toy", "lag")
    events = trace.table("events")
    longer = [draw.choice((0, 0, 0, 40_000, 3_000_000)) for _ in range(events.height)]
    device = pl.col("lane") != "host"
    moved = events.with_columns(end_ns=pl.col("end_ns") + pl.when(device).then(pl.Series(longer)).otherwise(0))
    check(trace.table("steps"), moved, STREAMS)


def test_no_events_is_one_gap():
    steps = pl.DataFrame(
        {"step": [3], "start_ns": [5], "end_ns": [9]},
        schema={"step": pl.Int32, "start_ns": pl.Int64, "end_ns": pl.Int64},
    )
    found = critical_path(steps, pl.DataFrame(schema=TABLES["events"].polars_schema), {})
    assert found.segments.drop("exposed_ns").rows() == [(3, "gap", "", "host", 5, 9)]
    none = critical_path(steps.head(0), pl.DataFrame(schema=TABLES["events"].polars_schema), {})
    assert none.segments.is_empty()
    assert none.ops.is_empty()

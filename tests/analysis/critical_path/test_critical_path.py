"""The path on steps small enough to work out by hand, and its invariants on whole runs."""

import polars as pl
import pytest

from simtool.analysis.critical_path.critical_path import critical_path, mean_by_op
from simtool.step.placement import BUILT_IN
from simtool.trace.schema import TABLES
from tests.synthetic import EXECUTORS, make_trace


def _steps(*spans):
    return pl.DataFrame(
        {"step": range(len(spans)), "start_ns": [s for s, _ in spans], "end_ns": [e for _, e in spans]},
        schema={"step": pl.Int32, "start_ns": pl.Int64, "end_ns": pl.Int64},
    )


def _events(*rows):
    full = [(step, op, lane, start, end, *wait, flow, 0) for step, op, lane, start, end, wait, flow in rows]
    schema = dict(list(TABLES["events"].polars_schema.items())[:9])  # what only an import has is left out
    return pl.DataFrame(full, schema=schema, orient="row")


_NO_WAIT = (None, None)


def _path(result):
    return [
        (part, op, end - start)
        for part, op, start, end in result.segments.select("part", "op", "start_ns", "end_ns").rows()
    ]


def _of(result, op, lane="host"):
    return result.ops.row(by_predicate=(pl.col("op") == op) & (pl.col("lane") == lane), named=True)


def test_a_host_that_waits_for_the_device():
    """launch_draft at 10, the draft runs 12-50, a build hides under it, read_tokens wakes at 53."""
    events = _events(
        (0, "launch_draft", "host", 0, 10, _NO_WAIT, 1),
        (0, "build_dense", "host", 10, 25, _NO_WAIT, 2),
        (0, "read_tokens", "host", 25, 55, (26, 53), 3),
        (0, "draft", "compute", 12, 50, _NO_WAIT, 1),
        (0, "read_tokens", "copy", 50, 51, _NO_WAIT, 3),
    )
    result = critical_path(_steps((0, 55)), events, EXECUTORS)
    assert _path(result) == [
        ("host", "launch_draft", 10),
        ("launch", "draft", 2),
        ("device", "draft", 38),
        ("device", "read_tokens", 1),
        ("wake", "read_tokens", 2),
        ("host", "read_tokens", 2),
    ]
    assert _of(result, "build_dense") == {
        "step": 0, "op": "build_dense", "lane": "host",
        "duration_ns": 15, "on_path_ns": 0, "exposed_ns": 0, "hidden_ns": 15, "slack_ns": 24,
    }  # fmt: skip
    assert _of(result, "launch_draft")["slack_ns"] == 0
    assert _of(result, "read_tokens")["exposed_ns"] == 4


def test_a_host_that_is_the_bottleneck():
    """The device is done at 20 and idles until the host launches the target at 60."""
    events = _events(
        (0, "launch_draft", "host", 0, 10, _NO_WAIT, 1),
        (0, "build_varlen", "host", 10, 50, _NO_WAIT, 2),
        (0, "launch_target", "host", 50, 60, _NO_WAIT, 3),
        (0, "read_tokens", "host", 60, 80, (60, 80), 4),
        (0, "draft", "compute", 10, 20, _NO_WAIT, 1),
        (0, "target", "compute", 60, 79, _NO_WAIT, 3),
        (0, "read_tokens", "copy", 79, 80, _NO_WAIT, 4),
    )
    result = critical_path(_steps((0, 80)), events, EXECUTORS)
    assert [part for part, _, _ in _path(result)] == ["host", "host", "host", "device", "device"]
    assert _of(result, "build_varlen")["on_path_ns"] == 40
    assert _of(result, "build_varlen")["exposed_ns"] == 30
    assert _of(result, "draft", "compute")["slack_ns"] == 40


def test_lanes_are_one_queue_only_when_one_executor_runs_them():
    """An upload on prepare delays the draft when both share the executor; else it runs beside it."""
    events = _events(
        (0, "build_dense", "host", 0, 5, _NO_WAIT, 1),
        (0, "launch_draft", "host", 5, 10, _NO_WAIT, 2),
        (0, "read_tokens", "host", 10, 90, (10, 90), 3),
        (0, "build_dense", "prepare", 5, 40, _NO_WAIT, 1),
        (0, "draft", "compute", 40, 89, _NO_WAIT, 2),
    )
    shared = critical_path(_steps((0, 90)), events, EXECUTORS)
    assert ("device", "build_dense", 35) in _path(shared)
    own = critical_path(_steps((0, 90)), events, {})
    assert ("launch", "draft", 30) in _path(own)


def test_data_dependencies_order_work_across_streams():
    """The upload gives dense_batch, so fill_dense on compute waited for prepare, not for its launch."""
    events = _events(
        (0, "build_dense", "host", 0, 5, _NO_WAIT, 1),
        (0, "fill_dense", "host", 5, 10, _NO_WAIT, 2),
        (0, "read_tokens", "host", 10, 60, (10, 60), 3),
        (0, "build_dense", "prepare", 5, 40, _NO_WAIT, 1),
        (0, "fill_dense", "compute", 40, 60, _NO_WAIT, 2),
    )
    assert ("device", "build_dense", 35) in _path(critical_path(_steps((0, 60)), events, {}))


def test_work_carried_over_from_the_step_before():
    events = _events(
        (0, "launch_draft", "host", 0, 10, _NO_WAIT, 1),
        (0, "draft", "compute", 10, 40, _NO_WAIT, 1),
        (1, "launch_target", "host", 10, 15, _NO_WAIT, 2),
        (1, "read_tokens", "host", 15, 70, (15, 70), 3),
        (1, "target", "compute", 40, 69, _NO_WAIT, 2),
        (1, "read_tokens", "copy", 69, 70, _NO_WAIT, 3),
    )
    result = critical_path(_steps((0, 10), (10, 70)), events, EXECUTORS)
    assert ("device", "draft", 30) in _path(result)


def test_a_host_only_import_and_unknown_ops():
    events = _events((0, "aten::add", "host", 5, 20, _NO_WAIT, 1), (0, "aclnnMatMul", "compute", 8, 30, _NO_WAIT, 9))
    result = critical_path(_steps((0, 40)), events, {})
    assert _path(result) == [("gap", "", 8), ("device", "aclnnMatMul", 22), ("gap", "aclnnMatMul", 10)]


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_parts_fill_every_step_exactly(name, tmp_path):
    trace = make_trace(tmp_path / name, name)
    steps = trace.table("steps")
    result = critical_path(steps, trace.table("events"), EXECUTORS)
    for step, start, end in steps.select("step", "start_ns", "end_ns").iter_rows():
        of_step = result.segments.filter(pl.col("step") == step)
        assert of_step["start_ns"].to_list() == [start, *of_step["end_ns"].to_list()[:-1]]
        assert of_step["end_ns"].to_list()[-1] == end
    assert result.ops.select((pl.col("slack_ns") >= 0).all()).item()


def test_lag_hides_the_decision_that_this_step_exposes(tmp_path):
    exposed = {}
    for name in ("this-step", "lag"):
        trace = make_trace(tmp_path / name, name)
        decode = trace.table("steps").filter(pl.col("kind") == "decode")
        means = mean_by_op(critical_path(decode, trace.table("events"), EXECUTORS))
        exposed[name] = means.row(by_predicate=(pl.col("op") == "decide"), named=True)
    assert exposed["this-step"]["exposed_ns"] == exposed["this-step"]["duration_ns"]
    assert exposed["lag"]["exposed_ns"] == 0
    assert exposed["lag"]["slack_ns"] > 0

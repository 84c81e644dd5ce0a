"""Host ops of the step log around the calls of a profile: what a call inside an op launched is that op's work."""

from __future__ import annotations

import polars as pl

from simtool.trace.frames import conform
from simtool.trace.importers.step_log.works import IS_HOST, WORK_NAMES, lane_of, work_of
from simtool.trace.schema import TABLES

_COLUMNS = [column.name for column in TABLES["events"].columns]


def fold_into_ops(ops: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return events whose host side are the ops, and whose device side is one span for each op's work.

    ops: host events of the log, on the clock of `events`. A wait of the profile inside an op becomes the op's, unless
    it has its own. Device work that no op launched keeps its name, in its step.
    """
    calls = events.filter(IS_HOST)
    inside = _inside(ops, calls)
    device = events.filter(~IS_HOST).join(inside.select("flow", "op_flow", "host_op"), on="flow", how="left")
    device = device.with_columns(work=work_of("host_op"))
    owned = device.filter(pl.col("work").is_not_null())
    owned = owned.with_columns(op=pl.col("work"), lane=lane_of("work"), flow=pl.col("op_flow"))
    loose = device.filter(pl.col("work").is_null())
    last = ops["flow"].max()
    first_free = (last if isinstance(last, int) else 0) + 1
    loose = loose.with_columns(flow=pl.int_range(first_free, first_free + pl.len(), dtype=pl.Int64))
    return pl.concat([_event_frame(part) for part in (_with_waits(ops, inside), _spans(owned), loose)])


def merge_work(events: pl.DataFrame) -> pl.DataFrame:
    """Return events in which the kernels of one op's work are one span: a work is what its op launched."""
    of_op = ~IS_HOST & pl.col("op").is_in(WORK_NAMES)
    owned = events.filter(of_op).with_columns(lane=lane_of("op"))
    return pl.concat([_event_frame(events.filter(~of_op)), _event_frame(_spans(owned))])


def _spans(owned: pl.DataFrame) -> pl.DataFrame:
    groups = owned.group_by("flow", "op", "lane", maintain_order=True)
    return groups.agg(pl.col("step").first(), pl.col("start_ns").min(), pl.col("end_ns").max(), pl.col("bytes").sum())


def _event_frame(part: pl.DataFrame) -> pl.DataFrame:
    return conform(TABLES["events"], part.select([name for name in _COLUMNS if name in part.columns]), "joined events")


def _inside(ops: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """The calls with the op in whose span each begins, as op_flow and host_op."""
    spans = ops.select(start_ns="start_ns", op_end_ns="end_ns", op_flow="flow", host_op="op").sort("start_ns")
    found = calls.sort("start_ns").join_asof(spans, on="start_ns", strategy="backward")
    return found.filter(pl.col("start_ns") < pl.col("op_end_ns"))


def _with_waits(ops: pl.DataFrame, inside: pl.DataFrame) -> pl.DataFrame:
    waits = inside.filter(pl.col("wait_start_ns").is_not_null()).group_by("op_flow")
    seen = waits.agg(seen_start=pl.col("wait_start_ns").min(), seen_end=pl.col("wait_end_ns").max())
    joined = ops.join(seen, left_on="flow", right_on="op_flow", how="left", maintain_order="left")
    lacks = pl.col("wait_start_ns").is_null() & pl.col("seen_start").is_not_null()
    return joined.with_columns(
        wait_start_ns=pl.when(lacks).then("seen_start").otherwise("wait_start_ns"),
        wait_end_ns=pl.when(lacks).then(pl.min_horizontal("seen_end", "end_ns")).otherwise("wait_end_ns"),
    )

"""Host ops of the step log around the calls of a profile: what a call inside an op launched is that op's work."""

from __future__ import annotations

import polars as pl

from simtool.step.ops import CATALOGUE, Lane
from simtool.trace.frames import conform
from simtool.trace.schema import TABLES

_HOST = pl.col("lane") == Lane.HOST.value
#: Host op and lane -> the catalogue's name of the work that it launches there.
_WORK = pl.DataFrame(
    [(op.name, work.lane.value, work.name) for op in CATALOGUE.values() for work in op.works],
    schema={"host_op": pl.String, "lane": pl.String, "work": pl.String},
    orient="row",
).unique(["host_op", "lane"], keep="first", maintain_order=True)


def fold_into_ops(ops: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return events whose host side are the ops, and whose device side is one span for each op's work on a lane.

    ops: host events of the log, on the clock of `events`. A wait of the profile inside an op becomes the op's, unless
    it has its own. Device work that no op launched keeps its name, in its step.
    """
    calls = events.filter(_HOST)
    inside = _inside(ops, calls)
    device = events.filter(~_HOST).join(inside.select("flow", "op_flow", "host_op"), on="flow", how="left")
    device = device.join(_WORK, on=["host_op", "lane"], how="left")
    owned = device.filter(pl.col("work").is_not_null()).group_by("op_flow", "work", "lane", maintain_order=True)
    spans = owned.agg(
        pl.col("start_ns").min(), pl.col("end_ns").max(), pl.col("bytes").sum(), pl.col("step").first()
    ).rename({"op_flow": "flow", "work": "op"})
    loose = device.filter(pl.col("work").is_null())
    last = ops["flow"].max()
    first_free = (last if isinstance(last, int) else 0) + 1
    loose = loose.with_columns(flow=pl.int_range(first_free, first_free + pl.len(), dtype=pl.Int64))
    parts = [_with_waits(ops, inside), spans, loose]
    wanted = [column.name for column in TABLES["events"].columns]
    whole = [conform(TABLES["events"], part.select(set(wanted) & set(part.columns)), "joined events") for part in parts]
    return pl.concat(whole)


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

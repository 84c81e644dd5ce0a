"""The order in which a trace's requests were queued: the one that every replay and study serves them in."""

from __future__ import annotations

import polars as pl

from simtool.errors import TraceError
from simtool.trace.trace import Trace

_HELD = ("request_id", "slot")
_NOBODY = pl.DataFrame(schema={"request_id": pl.String, "held": pl.Int32})


def queue_order(source: Trace) -> pl.DataFrame:
    """Finished requests in the order they were queued.

    Where a trace stamps all arrivals alike, those admitted first came first, and of those admitted together the one in
    the lower slot (a request that its first token ended held it in no row: its own column tells it, if anything).
    Raises TraceError when there is none.
    """
    requests = source.table("requests").filter(pl.col("finished_ns").is_not_null())
    if requests.is_empty():
        raise TraceError(f"{source.path}: holds no finished request; record until at least one is served")
    held = requests.with_columns(held="slot") if _all_told(requests) else _with_slots(requests, source)
    return held.sort("arrival_ns", "admitted_ns", "held", "request_id", nulls_last=True).drop("held")


def _all_told(requests: pl.DataFrame) -> bool:
    return requests["slot"].null_count() == 0


def _with_slots(requests: pl.DataFrame, source: Trace) -> pl.DataFrame:
    parts = [rows.group_by("request_id").agg(held=pl.col("slot").min()) for rows in source.stretches("rows", *_HELD)]
    slots = pl.concat([_NOBODY, *parts]).group_by("request_id").agg(pl.col("held").min())
    joined = requests.join(slots, on="request_id", how="left", maintain_order="left")
    return joined.with_columns(held=pl.coalesce("slot", "held"))

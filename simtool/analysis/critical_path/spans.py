"""Which steps of a trace to look at: decode steps at full occupancy, or, in an import, whatever steps events name."""

from __future__ import annotations

import polars as pl

from simtool.trace.trace import Trace

_NO_SPANS = pl.DataFrame(schema={"step": pl.Int32, "start_ns": pl.Int64, "end_ns": pl.Int64, "pruned": pl.Boolean})


def typical_steps(trace: Trace) -> pl.DataFrame:
    """Return step, start_ns, end_ns, pruned of the decode steps at full occupancy; of all where no batch is said.

    A trace without a steps table (a profiler's output) gives the span of each step's events instead.
    """
    return trace.once("typical steps", _typical_steps)


def _typical_steps(trace: Trace) -> pl.DataFrame:
    steps = trace.columns("steps", "step", "kind", "start_ns", "end_ns", "batch", "pruned")
    if steps.is_empty():
        span = (pl.col("start_ns").min(), pl.col("end_ns").max(), pl.lit(False).alias("pruned"))
        events = trace.stretches("events", "step", "start_ns", "end_ns")
        spans = [part.group_by("step").agg(*span) for part in events]
        return pl.concat(spans).sort("step") if spans else _NO_SPANS
    decode = steps.filter(pl.col("kind") == "decode")
    full = decode.filter((pl.col("batch") == pl.col("batch").max()) | pl.col("batch").max().is_null())
    return full.select("step", "start_ns", "end_ns", "pruned")

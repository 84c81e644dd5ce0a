"""Which steps of a trace to look at: decode steps at full occupancy, or, in an import, whatever steps events name."""

from __future__ import annotations

import polars as pl

from simtool.trace.trace import Trace


def typical_steps(trace: Trace) -> pl.DataFrame:
    """Return step, start_ns, end_ns, pruned of the decode steps at full occupancy; of all where no batch is said.

    A trace without a steps table (a profiler's output) gives the span of each step's events instead.
    """
    steps = trace.table("steps")
    if steps.is_empty():
        span = (pl.col("start_ns").min(), pl.col("end_ns").max(), pl.lit(False).alias("pruned"))
        return trace.table("events").group_by("step").agg(*span).sort("step")
    decode = steps.filter(pl.col("kind") == "decode")
    full = decode.filter((pl.col("batch") == pl.col("batch").max()) | pl.col("batch").max().is_null())
    return full.select("step", "start_ns", "end_ns", "pruned")

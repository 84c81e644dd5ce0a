"""Rules of `steps`: time runs forward, and the batch and its rows are what `rows` says they are."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from simtool.trace.checks.finding import Finding, Rule, apply, duplicates, outside
from simtool.trace.trace import Trace

_DECODE = pl.col("kind") == "decode"

_RULES = (
    outside("kind", ("prefill", "decode")),
    Rule("ends before it starts", pl.col("end_ns") < pl.col("start_ns"), ("start_ns", "end_ns")),
    Rule(
        "starts before the step before it ends",
        pl.col("start_ns") < pl.col("end_ns").shift(),
        ("start_ns",),
    ),
    Rule("steps are not numbered 0, 1, 2, ...", pl.col("step") != pl.int_range(pl.len(), dtype=pl.Int32)),
    Rule("holds no sequence", pl.col("batch") < 1, ("batch",)),
    Rule(
        "graph_bucket holds fewer rows than validate_rows",
        pl.col("graph_bucket") < pl.col("validate_rows"),
        ("graph_bucket", "validate_rows"),
    ),
)

_SAID = (Rule("does not say its batch or rows", pl.col("batch").is_null() | pl.col("validate_rows").is_null()),)

_NO_SUMS = pl.DataFrame(schema={"step": pl.Int32, "row_count": pl.UInt32, "widths": pl.Int32, "has_pruned": pl.Boolean})

#: What holds between steps and their rows; an import may have steps and no rows.
_WITH_ROWS = (
    Rule(
        "batch is not the number of its rows",
        _DECODE & (pl.col("batch") != pl.col("row_count")),
        ("batch", "row_count"),
    ),
    Rule(
        "validate_rows is not W, the sum of prefix_len + 1",
        _DECODE & (pl.col("validate_rows") != pl.col("widths")),
        ("validate_rows", "widths"),
    ),
    Rule(
        "pruned does not say whether a prefix_len is below SL",
        _DECODE & (pl.col("pruned") != pl.col("has_pruned")),
        ("pruned",),
    ),
)


def check_steps(trace: Trace) -> Iterator[Finding]:
    """Yield what is wrong in `steps`."""
    steps = trace.table("steps")
    sums = [
        rows.group_by("step").agg(
            row_count=pl.len(),
            widths=(pl.col("prefix_len") + 1).sum(),
            has_pruned=(pl.col("prefix_len") < trace.manifest.sl).any(),
        )
        for rows in trace.stretches("rows", "step", "prefix_len")
    ]
    view = steps.join(pl.concat(sums) if sums else _NO_SUMS, on="step", how="left").sort("step")
    filled = view.with_columns(pl.col("row_count", "widths").fill_null(0), pl.col("has_pruned").fill_null(False))
    yield from duplicates(steps, "steps", ("step",))
    yield from apply(_RULES, filled, "steps", ("step",))
    if trace.manifest.origin != "imported":
        yield from apply(_SAID, filled, "steps", ("step",))
    if trace.manifest.origin != "imported" or sums:
        yield from apply(_WITH_ROWS, filled, "steps", ("step",))

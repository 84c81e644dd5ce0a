"""Table: every op of an arm's mean step: its time, its share of the critical path, and its slack."""

from __future__ import annotations

import polars as pl

from simtool.analysis.comparison.arms import Arm
from simtool.analysis.critical_path.spans import typical_steps
from simtool.analysis.critical_path.totals import typical_totals
from simtool.report.page.page import PageTable
from simtool.units import format_ns

_COLUMNS = ("duration_ns", "on_path_ns", "exposed_ns", "hidden_ns", "slack_ns")
_HEADS = ("op", "lane", "time", "on the path", "exposed", "hidden", "slack")
_MAX_OPS = 40


def op_table(arm: Arm) -> PageTable | None:
    """Return the ops of the arm's first run, the longest on the path first; None without events."""
    trace = arm.traces[0]
    if typical_steps(trace).is_empty() or not trace.height("events"):
        return None
    means = typical_totals(trace).ops.filter(pl.col("op") != "").head(_MAX_OPS)
    rows = [
        (row["op"], row["lane"], *("-" if row[name] is None else format_ns(row[name]) for name in _COLUMNS))
        for row in means.iter_rows(named=True)
    ]
    return PageTable(_HEADS, rows, [arm.origin] * len(rows), wide=True)

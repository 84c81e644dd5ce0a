"""The critical path of each step: the chain of work that bounds its end, and how much room everything else had.

The backtrace goes back from the step's end along whatever was ready last (graph.py). Its parts fill the
step without gap or overlap, so they sum to its length exactly. Many steps are walked at once, in arrays, a block of
steps after another (pieces.py), so that work and memory grow with the events and no faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from simtool.analysis.busy import BusyTime, device_busy
from simtool.analysis.critical_path.backtrace import PARTS, Part, backtrace, slack
from simtool.analysis.critical_path.graph import build_graph
from simtool.analysis.critical_path.nodes import make_nodes
from simtool.analysis.critical_path.per_op import Columns, sum_ops
from simtool.analysis.critical_path.pieces import Names, Pieces, make_pieces

__all__ = ["CriticalPath", "Part", "critical_path", "mean_by_op"]


@dataclass(frozen=True)
class CriticalPath:
    """What bounded each step.

    segments: step, part, op, lane, start_ns, end_ns, exposed_ns (no device lane ran): the path in time order;
    a step's segments sum to its length.
    ops: step, op, lane, duration_ns (waits left out), on_path_ns (latencies before it included), exposed_ns,
    hidden_ns (run off the path), slack_ns (how much longer it could have taken before the step's end moved).
    """

    segments: pl.DataFrame
    ops: pl.DataFrame


def critical_path(
    steps: pl.DataFrame, events: pl.DataFrame, executors: Mapping[str, str], busy: BusyTime | None = None
) -> CriticalPath:
    """Find the path of every step from a trace's tables.

    executors: lane -> what runs it in order (manifest.details["executors"]); lanes not named run by themselves.
    busy: when the device ran, where that is known already; None: as the events say.
    """
    steps = steps.sort("step")
    pieces = make_pieces(steps, events)
    busy = device_busy(events) if busy is None else busy
    blocks = [
        _of_block(block, steps["step"].slice(block.first_step, len(block.starts_ns)), executors, busy)
        for block in pieces.blocks()
    ]
    segments, ops = (pl.concat(tables) for tables in zip(*blocks, strict=True))
    return CriticalPath(segments, ops.with_columns(slack_ns=pl.when("ran").then("slack_ns")).drop("ran"))


def mean_by_op(path: CriticalPath) -> pl.DataFrame:
    """Average over steps, the longest on the path first: op, lane, then the `ops` columns as means in ns.

    An op that some steps lack counts 0 there, except for slack, which is the mean over the steps that ran it.
    """
    return means_of_ops(sum_by_op(path), path.segments["step"].n_unique())


_SUMMED = ("duration_ns", "on_path_ns", "exposed_ns", "hidden_ns")


def sum_by_op(path: CriticalPath) -> pl.DataFrame:
    """Sum over steps: op, lane, the `ops` columns in ns, and slacks, the number of steps that have a slack."""
    slack = pl.col("slack_ns")
    return path.ops.group_by("op", "lane").agg(pl.col(*_SUMMED).sum(), slack.sum(), slacks=slack.count())


def means_of_ops(sums: pl.DataFrame, steps: int) -> pl.DataFrame:
    """Average sums as of `sum_by_op`, several an op where they come from several stretches of so many steps."""
    grouped = sums.group_by("op", "lane").agg(pl.col(*_SUMMED, "slack_ns", "slacks").sum())
    slack = pl.when(pl.col("slacks") > 0).then(pl.col("slack_ns") / pl.col("slacks")).alias("slack_ns")
    means = [(pl.col(name) / max(steps, 1)).alias(name) for name in _SUMMED]
    return grouped.select("op", "lane", *means, slack).sort("on_path_ns", "op", descending=[True, False])


def _of_block(
    pieces: Pieces, steps: pl.Series, executors: Mapping[str, str], busy: BusyTime
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the segments and ops of one block. steps: the numbers of its steps."""
    graph = build_graph(make_nodes(pieces), executors)
    path = backtrace(graph, pieces.starts_ns, pieces.ends_ns)
    exposed_ns = path.end_ns - path.start_ns - busy.within(path.start_ns, path.end_ns)
    op, lane = graph.nodes.owners(path.node)
    segments = {"step": path.step, "part": path.part, "op": op, "lane": lane}
    segments |= {"start_ns": path.start_ns, "end_ns": path.end_ns, "exposed_ns": exposed_ns}
    ops = sum_ops(graph, path, exposed_ns, slack(graph, pieces.ends_ns), pieces.starts_ns)
    return _named(segments, pieces.names, steps), _named(ops, pieces.names, steps)


def _named(columns: Columns, names: Names, steps: pl.Series) -> pl.DataFrame:
    """Put names in the place of numbers."""
    meaning = {
        "step": steps,
        "part": pl.Series([part.value for part in PARTS]),
        "op": pl.Series(names.ops),
        "lane": pl.Series(names.lanes),
    }
    return pl.DataFrame({n: meaning[n].gather(column) if n in meaning else column for n, column in columns.items()})

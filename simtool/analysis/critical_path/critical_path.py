"""The critical path of each step: the chain of work that bounds its end, and how much room everything else had.

The backtrace goes back from the step's end along whatever was ready last (graph.py). Its parts fill the
step without gap or overlap, so they sum to its length exactly. Many steps are walked at once, in arrays, a block of
steps after another (pieces.py), so that work and memory grow with the events and no faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from simtool.analysis.busy import BusyTime, device_busy
from simtool.analysis.critical_path.backtrace import PARTS, Part, backtrace, slack
from simtool.analysis.critical_path.graph import build_graph
from simtool.analysis.critical_path.nodes import make_nodes
from simtool.analysis.critical_path.per_op import Columns, sum_ops
from simtool.analysis.critical_path.pieces import Names, Pieces, make_pieces

__all__ = ["CriticalPath", "Part", "PathBlock", "critical_path", "mean_by_op", "path_blocks"]


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


@dataclass(frozen=True)
class PathBlock:
    """The paths of some steps as numbers. steps: the numbers of its steps, [steps]. names: what op and lane stand for.

    segments, ops: the columns of a `CriticalPath`; step: a place in `steps`, part: one in PARTS, op and lane: in
    `names`. ops have `ran` besides: false where an op's slack means nothing.
    """

    steps: pl.Series
    names: Names
    segments: Columns
    ops: Columns


def critical_path(
    steps: pl.DataFrame, events: pl.DataFrame, executors: Mapping[str, str], busy: BusyTime | None = None
) -> CriticalPath:
    """Find the path of every step from a trace's tables.

    executors: lane -> what runs it in order (manifest.details["executors"]); lanes not named run by themselves.
    busy: when the device ran, where that is known already; None: as the events say.
    """
    blocks = list(path_blocks(steps, events, executors, busy))
    segments, ops = (
        pl.concat([_named(columns, block.names, block.steps) for block, columns in tables])
        for tables in ([(block, block.segments) for block in blocks], [(block, block.ops) for block in blocks])
    )
    return CriticalPath(segments, ops.with_columns(slack_ns=pl.when("ran").then("slack_ns")).drop("ran"))


def path_blocks(
    steps: pl.DataFrame, events: pl.DataFrame, executors: Mapping[str, str], busy: BusyTime | None = None
) -> Iterator[PathBlock]:
    """Yield the paths of some steps after another; see `critical_path`."""
    steps = steps.sort("step")
    busy = device_busy(events) if busy is None else busy
    for block in make_pieces(steps, events).blocks():
        yield _of_block(block, steps["step"].slice(block.first_step, len(block.starts_ns)), executors, busy)


def mean_by_op(path: CriticalPath) -> pl.DataFrame:
    """Average over steps, the longest on the path first: op, lane, then the `ops` columns as means in ns.

    An op that some steps lack counts 0 there, except for slack, which is the mean over the steps that ran it.
    """
    slack = pl.col("slack_ns")
    sums = path.ops.group_by("op", "lane").agg(pl.col(*SUMMED).sum(), slack.sum(), slacks=slack.count())
    return means_of_ops(sums, path.segments["step"].n_unique())


#: What of an op is summed over steps, besides its slack.
SUMMED = ("duration_ns", "on_path_ns", "exposed_ns", "hidden_ns")


def means_of_ops(sums: pl.DataFrame, steps: int) -> pl.DataFrame:
    """Average sums over so many steps: op, lane, SUMMED, slack_ns and slacks, how many steps have a slack.

    There may be several an op, of several stretches of the steps.
    """
    grouped = sums.group_by("op", "lane").agg(pl.col(*SUMMED, "slack_ns", "slacks").sum())
    slack = pl.when(pl.col("slacks") > 0).then(pl.col("slack_ns") / pl.col("slacks")).alias("slack_ns")
    means = [(pl.col(name) / max(steps, 1)).alias(name) for name in SUMMED]
    return grouped.select("op", "lane", *means, slack).sort("on_path_ns", "op", descending=[True, False])


def _of_block(pieces: Pieces, steps: pl.Series, executors: Mapping[str, str], busy: BusyTime) -> PathBlock:
    """Return the paths of one block. steps: the numbers of its steps."""
    graph = build_graph(make_nodes(pieces), executors)
    path = backtrace(graph, pieces.starts_ns, pieces.ends_ns)
    exposed_ns = path.end_ns - path.start_ns - busy.within(path.start_ns, path.end_ns)
    op, lane = graph.nodes.owners(path.node)
    segments = {"step": path.step, "part": path.part, "op": op, "lane": lane}
    segments |= {"start_ns": path.start_ns, "end_ns": path.end_ns, "exposed_ns": exposed_ns}
    ops = sum_ops(graph, path, exposed_ns, slack(graph, pieces.ends_ns), pieces.starts_ns)
    return PathBlock(steps, pieces.names, segments, ops)


def _named(columns: Columns, names: Names, steps: pl.Series) -> pl.DataFrame:
    """Put names in the place of numbers."""
    meaning = {
        "step": steps,
        "part": pl.Series([part.value for part in PARTS]),
        "op": pl.Series(names.ops),
        "lane": pl.Series(names.lanes),
    }
    return pl.DataFrame({n: meaning[n].gather(column) if n in meaning else column for n, column in columns.items()})

"""The critical path of each step: the chain of work that bounds its end, and how much room everything else had.

The walk goes back from the step's end along whatever was ready last (simtool/analysis/graph.py). Its parts fill the
step without gap or overlap, so they sum to its length exactly. Linear in the number of events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from simtool.analysis.busy import device_busy
from simtool.analysis.graph import Node, Piece, StepGraph, build_graph
from simtool.step.ops import Lane


class Part(StrEnum):
    """What a stretch of the path is."""

    HOST = "host"
    DEVICE = "device"
    LAUNCH = "launch"  # launched and free to start, but not started yet
    WAKE = "wake"  # the device was done, the host had not noticed yet
    GAP = "gap"  # between two pieces of the host's work, or of one stream's


_SEGMENTS = {
    "step": pl.Int32,
    "part": pl.String,
    "op": pl.String,
    "lane": pl.String,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
}
_OPS = {
    "step": pl.Int32,
    "op": pl.String,
    "lane": pl.String,
    "duration_ns": pl.Int64,
    "slack_ns": pl.Int64,
}


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


def critical_path(steps: pl.DataFrame, events: pl.DataFrame, executors: Mapping[str, str]) -> CriticalPath:
    """Find the path of every step from a bundle's tables.

    executors: lane -> what runs it in order (manifest.details["executors"]); lanes not named run by themselves.
    """
    segment_rows: list[tuple[object, ...]] = []
    op_rows: list[tuple[object, ...]] = []
    for step, start_ns, end_ns, graph in _graphs(steps, events, executors):
        segment_rows += [(step, *segment) for segment in _walk(graph, start_ns, end_ns)]
        slack = _slack(graph, end_ns)
        op_rows += [
            (step, node.op, node.lane, node.end_ns - node.start_ns, room)
            for node, room in zip(graph.nodes, slack, strict=True)
            if node.end_ns > start_ns
        ]
    segments = pl.DataFrame(segment_rows, schema=_SEGMENTS, orient="row")
    busy = device_busy(events).within(segments["start_ns"], segments["end_ns"])
    segments = segments.with_columns(exposed_ns=pl.col("end_ns") - pl.col("start_ns") - pl.Series(busy, dtype=pl.Int64))
    return CriticalPath(segments.sort("step", "start_ns", "end_ns"), _per_op(op_rows, segments))


def mean_by_op(path: CriticalPath) -> pl.DataFrame:
    """Average over steps, the longest on the path first: op, lane, then the `ops` columns as means in ns.

    An op that some steps lack counts 0 there, except for slack, which is the mean over the steps that ran it.
    """
    steps = max(path.segments["step"].n_unique(), 1)
    sums = [
        (pl.col(name).sum() / steps).alias(name) for name in ("duration_ns", "on_path_ns", "exposed_ns", "hidden_ns")
    ]
    grouped = path.ops.group_by("op", "lane").agg(*sums, pl.col("slack_ns").mean())
    return grouped.sort("on_path_ns", "op", descending=[True, False])


def _graphs(
    steps: pl.DataFrame, events: pl.DataFrame, executors: Mapping[str, str]
) -> Iterator[tuple[int, int, int, StepGraph]]:
    columns = ["step", "op", "lane", "start_ns", "end_ns", "wait_start_ns", "wait_end_ns", "flow"]
    by_step: dict[int, list[Piece]] = {}
    for row in events.select(columns).iter_rows():
        by_step.setdefault(row[0], []).append(Piece(*row))
    running: list[Piece] = []
    for step, start_ns, end_ns in steps.sort("step").select("step", "start_ns", "end_ns").iter_rows():
        pieces = by_step.get(step, [])
        carried = [piece for piece in running if piece.end_ns > start_ns]
        yield step, start_ns, end_ns, build_graph(pieces, executors, carried)
        running = [*carried, *(piece for piece in pieces if piece.lane != Lane.HOST.value)]


def _walk(graph: StepGraph, start_ns: int, end_ns: int) -> Iterator[tuple[str, str, str, int, int]]:
    """Yield (part, op, lane, start_ns, end_ns), last first, from the step's end back to its start."""
    time_ns, index = end_ns, graph.last_host
    while index is not None and time_ns > start_ns:
        node = graph.nodes[index]
        if node.end_ns < time_ns:
            yield Part.GAP, node.op, node.lane, max(node.end_ns, start_ns), time_ns
            time_ns = max(node.end_ns, start_ns)
        begin_ns = max(node.start_ns, start_ns)
        if begin_ns < time_ns:
            yield (Part.HOST if node.on_host else Part.DEVICE), node.op, node.lane, begin_ns, time_ns
            time_ns = begin_ns
        edge = node.binding()
        if edge is None:
            break
        ready_ns = max(edge[1], start_ns)
        if ready_ns < time_ns:
            yield _latency(graph.nodes[edge[0]], node), node.op, node.lane, ready_ns, time_ns
            time_ns = ready_ns
        index = edge[0]
    if time_ns > start_ns:
        yield Part.GAP, "", Lane.HOST.value, start_ns, time_ns


def _latency(before: Node, after: Node) -> Part:
    if before.on_host == after.on_host:
        return Part.GAP
    return Part.LAUNCH if before.on_host else Part.WAKE


def _slack(graph: StepGraph, end_ns: int) -> list[int]:
    """Return how much later each node could have ended without moving the step's end; edges point backwards."""
    slack = [max(end_ns - node.end_ns, 0) for node in graph.nodes]
    if graph.last_host is not None:
        slack[graph.last_host] = 0
    for index in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[index]
        binding = node.binding()
        for before, ready_ns in node.edges:
            room = binding[1] - ready_ns if binding else 0
            slack[before] = min(slack[before], slack[index] + room)
    return slack


def _per_op(op_rows: list[tuple[object, ...]], segments: pl.DataFrame) -> pl.DataFrame:
    key = ["step", "op", "lane"]
    ran = (
        pl.DataFrame(op_rows, schema=_OPS, orient="row")
        .group_by(key)
        .agg(pl.col("duration_ns").sum(), pl.col("slack_ns").min())
    )
    length = (pl.col("end_ns") - pl.col("start_ns")).alias("length_ns")
    on_path = (
        segments.with_columns(length)
        .group_by(key)
        .agg(
            pl.col("length_ns").sum().alias("on_path_ns"),
            pl.col("length_ns")
            .filter(pl.col("part").is_in([Part.HOST.value, Part.DEVICE.value]))
            .sum()
            .alias("work_ns"),
            pl.col("exposed_ns").sum(),
        )
    )
    joined = ran.join(on_path, on=key, how="full", coalesce=True).with_columns(
        pl.col("duration_ns", "on_path_ns", "work_ns", "exposed_ns").fill_null(0)
    )
    hidden = (pl.col("duration_ns") - pl.col("work_ns")).clip(lower_bound=0).alias("hidden_ns")
    names = ["duration_ns", "on_path_ns", "exposed_ns", "hidden_ns", "slack_ns"]
    return joined.with_columns(hidden).select(*key, *names).sort(key)

"""The critical path of each step: the chain of work that bounds its end, and how much room everything else had.

The walk goes back from the step's end along whatever was ready last (simtool/analysis/graph.py). Its parts fill the
step without gap or overlap, so they sum to its length exactly. All steps are walked at once, in arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from simtool.analysis.busy import device_busy
from simtool.analysis.graph import Graph, build_graph
from simtool.analysis.nodes import NOBODY, Ints, Nodes, make_nodes
from simtool.analysis.walk import PARTS, Part, slack, walk
from simtool.step.ops import Lane

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


def critical_path(steps: pl.DataFrame, events: pl.DataFrame, executors: Mapping[str, str]) -> CriticalPath:
    """Find the path of every step from a bundle's tables.

    executors: lane -> what runs it in order (manifest.details["executors"]); lanes not named run by themselves.
    """
    steps = steps.sort("step")
    nodes = make_nodes(steps, events)
    graph = build_graph(nodes, executors)
    segments = _segments(graph, steps)
    busy = device_busy(events).within(segments["start_ns"], segments["end_ns"])
    segments = segments.with_columns(exposed_ns=pl.col("end_ns") - pl.col("start_ns") - pl.Series(busy, dtype=pl.Int64))
    per_op = _per_op(_ran(graph, steps), segments)
    ordered = _named(nodes, steps, segments).select("step", "part", "op", "lane", "start_ns", "end_ns", "exposed_ns")
    return CriticalPath(ordered.sort("step", "start_ns", "end_ns"), _named(nodes, steps, per_op))


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


def _segments(graph: Graph, steps: pl.DataFrame) -> pl.DataFrame:
    """The path with the key of each segment's step, op and lane (see `_named`)."""
    path = walk(graph, steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy())
    nodes, node = graph.nodes, path["node"]
    nobody = (nodes.op_names.index(NOBODY), nodes.lane_names.index(Lane.HOST.value))
    op, lane = (np.append(of, last)[node] for of, last in zip((nodes.op, nodes.lane), nobody, strict=True))  # -1: last
    parts = pl.Series([part.value for part in PARTS]).gather(path["part"])
    return pl.DataFrame(
        {"key": _key(nodes, path["step"], op, lane), "part": parts, **{n: path[n] for n in ("start_ns", "end_ns")}}
    )


def _ran(graph: Graph, steps: pl.DataFrame) -> pl.DataFrame:
    """Key, duration_ns, slack_ns of every node that ran inside its step."""
    nodes = graph.nodes
    inside = nodes.end_ns > steps["start_ns"].to_numpy()[nodes.step]
    return pl.DataFrame(
        {
            "key": _key(nodes, nodes.step, nodes.op, nodes.lane)[inside],
            "duration_ns": (nodes.end_ns - nodes.start_ns)[inside],
            "slack_ns": slack(graph, steps["end_ns"].to_numpy())[inside],
        }
    )


def _per_op(ran: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    length = pl.col("end_ns") - pl.col("start_ns")
    working = pl.col("part").is_in([Part.HOST.value, Part.DEVICE.value])
    on_path = segments.select(
        "key", "exposed_ns", on_path_ns=length, work_ns=pl.when(working).then(length).otherwise(0)
    )
    both = pl.concat([ran, on_path], how="diagonal")
    sums = pl.col("duration_ns", "on_path_ns", "exposed_ns", "work_ns").sum()
    summed = both.group_by("key").agg(sums, pl.col("slack_ns").min()).sort("key")
    hidden = (pl.col("duration_ns") - pl.col("work_ns")).clip(lower_bound=0).alias("hidden_ns")
    return summed.with_columns(hidden).select("key", "duration_ns", "on_path_ns", "exposed_ns", "hidden_ns", "slack_ns")


def _key(nodes: Nodes, step: Ints, op: Ints, lane: Ints) -> Ints:
    """One number a step, op and lane, in their order: numbers are grouped many times faster than names."""
    return (step * len(nodes.op_names) + op) * len(nodes.lane_names) + lane


def _named(nodes: Nodes, steps: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
    """Replace the key by the columns step, op and lane."""
    place, lane = np.divmod(table["key"].to_numpy(), len(nodes.lane_names))
    step, op = np.divmod(place, len(nodes.op_names))
    names = [
        steps["step"].gather(step),
        pl.Series("op", nodes.op_names, pl.String).gather(op),
        pl.Series("lane", nodes.lane_names, pl.String).gather(lane),
    ]
    return table.drop("key").select(*names, pl.all())

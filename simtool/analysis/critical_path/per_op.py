"""What each op of each step ran, and how much of the critical path is its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simtool.analysis.critical_path.backtrace import NO_NODE, Path
from simtool.analysis.critical_path.graph import DependencyGraph
from simtool.analysis.critical_path.pieces import Ints

Columns = Mapping[str, NDArray[Any]]


def sum_ops(graph: DependencyGraph, path: Path, exposed_ns: Ints, slack_ns: Ints, starts_ns: Ints) -> Columns:
    """Return a row for each step, op and lane that ran inside its step or is on its path, in that order.

    exposed_ns: [segments]. slack_ns: [nodes]. starts_ns: [steps].
    Columns: step, op, lane (as numbers), duration_ns, on_path_ns, exposed_ns, hidden_ns, slack_ns, and ran: false where
    no node ran inside the step, so that the slack means nothing.
    """
    nodes, steps = graph.nodes, np.arange(len(starts_ns))
    nothing = np.zeros(len(steps), np.int64)  # behind the nodes stands, for each step, what nobody did
    step = np.append(nodes.step, steps)
    op, lane = nodes.owners(np.append(np.arange(len(nodes)), nothing + NO_NODE))
    ran = np.append(nodes.end_ns > starts_ns[nodes.step], nothing > 0)
    duration_ns = np.append(nodes.end_ns - nodes.start_ns, nothing) * ran
    room_ns = np.where(ran, np.append(slack_ns, nothing), slack_ns.max(initial=0))

    owner = np.where(path.node == NO_NODE, len(nodes) + path.step, path.node)
    length_ns = path.end_ns - path.start_ns
    on_path_ns, exposed_by_ns, working_ns = (
        sums_by(owner, of_segments, len(step)) for of_segments in (length_ns, exposed_ns, length_ns * path.working)
    )

    cell = (step * len(nodes.names.ops) + op) * len(nodes.names.lanes) + lane
    there = np.flatnonzero(ran | (on_path_ns > 0))
    there = there[np.argsort(cell[there])]
    opens = np.flatnonzero(np.append(True, np.diff(cell[there]) != 0)[: len(there)])
    first = there[opens]

    def total(values: Ints) -> Ints:
        return np.add.reduceat(values[there], opens)

    return {
        "step": step[first],
        "op": op[first],
        "lane": lane[first],
        "duration_ns": total(duration_ns),
        "on_path_ns": total(on_path_ns),
        "exposed_ns": total(exposed_by_ns),
        "hidden_ns": np.maximum(total(duration_ns - working_ns), 0),
        "slack_ns": np.minimum.reduceat(room_ns[there], opens),
        "ran": np.logical_or.reduceat(ran[there], opens),
    }


def sums_by(place: Ints, values: Ints, size: int) -> Ints:
    """Return the sums of whole numbers by place, [size]: exact, as a weighted bincount is not."""
    sums = np.zeros(size, np.int64)
    np.add.at(sums, place, values)
    return sums

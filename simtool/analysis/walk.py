"""Back from every step's end along what was ready last, all steps at once; and how much room each node had."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import numpy as np

from simtool.analysis.graph import Graph
from simtool.analysis.nodes import Ints


class Part(StrEnum):
    """What a stretch of the path is."""

    HOST = "host"
    DEVICE = "device"
    LAUNCH = "launch"  # launched and free to start, but not started yet
    WAKE = "wake"  # the device was done, the host had not noticed yet
    GAP = "gap"  # between two pieces of the host's work, or of one stream's


PARTS = tuple(Part)
_HOST, _DEVICE, _LAUNCH, _WAKE, _GAP = range(len(PARTS))
_NOBODY = -1


def walk(graph: Graph, starts_ns: Ints, ends_ns: Ints) -> Mapping[str, Ints]:
    """Return the path's segments as columns step, part (place in PARTS), node (-1: none), start_ns, end_ns.

    starts_ns, ends_ns: [steps]. The segments of a step fill it without gap or overlap.
    """
    path = _Path()
    nodes = graph.nodes
    step, time_ns, node = np.arange(len(ends_ns)), ends_ns, last_host(graph, len(ends_ns))
    while len(step):
        stuck = (node == _NOBODY) & (time_ns > starts_ns[step])
        path.add(step[stuck], _GAP, node[stuck], starts_ns[step[stuck]], time_ns[stuck])
        going = (node != _NOBODY) & (time_ns > starts_ns[step])
        step, time_ns, node = step[going], time_ns[going], node[going]
        floor = starts_ns[step]
        time_ns = path.back_to(step, _GAP, node, np.maximum(nodes.end_ns[node], floor), time_ns)
        kind = np.where(nodes.on_host[node], _HOST, _DEVICE)
        time_ns = path.back_to(step, kind, node, np.maximum(nodes.start_ns[node], floor), time_ns)
        before = graph.binding[node]
        bound = np.where(before == _NOBODY, time_ns, np.maximum(graph.bound_ns[node], floor))
        time_ns = path.back_to(step, _latency(graph, before, node), node, bound, time_ns)
        node = before
    return path.columns()


def slack(graph: Graph, ends_ns: Ints) -> Ints:
    """Return how much later each node could have ended without moving its step's end: [nodes], ns."""
    nodes = graph.nodes
    room_ns: Ints = np.maximum(ends_ns[nodes.step] - nodes.end_ns, 0)
    last = last_host(graph, len(ends_ns))
    room_ns[last[last != _NOBODY]] = 0
    place = np.arange(len(nodes)) - np.searchsorted(nodes.step, nodes.step)
    order = np.argsort(place[graph.node], kind="stable")
    node, before = graph.node[order], graph.before[order]
    spare_ns = graph.bound_ns[node] - graph.ready_ns[order]
    bounds = np.searchsorted(place[node], np.arange(place.max(initial=0) + 2))
    for low, high in zip(bounds[-2::-1], bounds[:0:-1], strict=True):
        np.minimum.at(room_ns, before[low:high], room_ns[node[low:high]] + spare_ns[low:high])
    return room_ns


def last_host(graph: Graph, steps: int) -> Ints:
    """Return the last host segment of each step, -1 where it has none."""
    hosts = np.flatnonzero(graph.nodes.on_host)
    last = np.full(steps, _NOBODY)
    last[graph.nodes.step[hosts]] = hosts  # hosts are sorted: the last one is written last
    return last


def _latency(graph: Graph, before: Ints, after: Ints) -> Ints:
    launched, waited = graph.nodes.on_host[before], graph.nodes.on_host[after]
    return np.asarray(np.where(launched == waited, _GAP, np.where(launched, _LAUNCH, _WAKE)), np.int64)


class _Path:
    """Collects segments, many steps at a time."""

    def __init__(self) -> None:
        self._rows: list[tuple[Ints, ...]] = []

    def add(self, step: Ints, part: int | Ints, node: Ints, start_ns: Ints, end_ns: Ints) -> None:
        self._rows.append((step, np.broadcast_to(part, step.shape), node, start_ns, end_ns))

    def back_to(self, step: Ints, part: int | Ints, node: Ints, start_ns: Ints, time_ns: Ints) -> Ints:
        """Add the stretch between start and time wherever there is one, and return the time that is left."""
        some = start_ns < time_ns
        self.add(step[some], np.broadcast_to(part, step.shape)[some], node[some], start_ns[some], time_ns[some])
        return np.minimum(start_ns, time_ns)

    def columns(self) -> Mapping[str, Ints]:
        names = ("step", "part", "node", "start_ns", "end_ns")
        empty = np.empty(0, np.int64)
        return {name: np.concatenate([empty, *(row[i] for row in self._rows)]) for i, name in enumerate(names)}

"""Back from every step's end along what was ready last, all steps at once; and how much room each node had."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from simtool.analysis.critical_path.graph import DependencyGraph
from simtool.analysis.critical_path.pieces import Flags, Ints, stable_order


class Part(StrEnum):
    """What a stretch of the path is."""

    HOST = "host"
    DEVICE = "device"
    LAUNCH = "launch"  # launched and free to start, but not started yet
    WAKE = "wake"  # the device was done, the host had not noticed yet
    GAP = "gap"  # between two pieces of the host's work, or of one stream's


PARTS = tuple(Part)
#: Parts in which the op itself runs, and what stands for the others together.
WORKING = (Part.HOST, Part.DEVICE)
LATENCY = "launch, hand-over, wake-up"
_HOST, _DEVICE, _LAUNCH, _WAKE, _GAP = range(len(PARTS))
NO_NODE = -1


@dataclass(frozen=True)
class Path:
    """The path's segments: [segments], in order of step and time. A step's segments fill it without gap or overlap.

    step: place in the block's steps. part: place in PARTS. node: whose it is (NO_NODE: nobody's).
    """

    step: Ints
    part: Ints
    node: Ints
    start_ns: Ints
    end_ns: Ints

    @property
    def working(self) -> Flags:
        """Where the node itself ran: neither a latency nor a gap."""
        working: Flags = (self.part == _HOST) | (self.part == _DEVICE)
        return working


def backtrace(graph: DependencyGraph, starts_ns: Ints, ends_ns: Ints) -> Path:
    """Return the path of every step. starts_ns, ends_ns: [steps]."""
    path = _Backwards()
    nodes = graph.nodes
    step, time_ns, node = np.arange(len(ends_ns)), ends_ns, last_node(graph, ends_ns)
    while len(step):
        floor = starts_ns[step]
        left = time_ns > floor
        stuck = np.flatnonzero(left & (node == NO_NODE))
        path.add(step[stuck], np.full(len(stuck), _GAP), node[stuck], floor[stuck], time_ns[stuck])
        going = np.flatnonzero(left & (node != NO_NODE))
        step, time_ns, node, floor = step[going], time_ns[going], node[going], floor[going]
        time_ns = path.back_to(step, np.full(len(step), _GAP), node, np.maximum(nodes.end_ns[node], floor), time_ns)
        kind = np.where(nodes.on_host[node], _HOST, _DEVICE)
        time_ns = path.back_to(step, kind, node, np.maximum(nodes.start_ns[node], floor), time_ns)
        before = graph.binding[node]
        bound = np.where(before == NO_NODE, time_ns, np.maximum(graph.bound_ns[node], floor))
        time_ns = path.back_to(step, _latency(graph, before, node), node, bound, time_ns)
        node = before
    return path.forwards()


def slack(graph: DependencyGraph, ends_ns: Ints) -> Ints:
    """Return how much later each node could have ended without moving its step's end: [nodes], ns."""
    nodes = graph.nodes
    room_ns: Ints = np.maximum(ends_ns[nodes.step] - nodes.end_ns, 0)
    last = last_node(graph, ends_ns)
    room_ns[last[last != NO_NODE]] = 0
    place = np.arange(len(nodes)) - np.searchsorted(nodes.step, np.arange(len(ends_ns)))[nodes.step]
    order = stable_order(place[graph.node])
    node, before = graph.node[order], graph.before[order]
    spare_ns = graph.bound_ns[node] - graph.ready_ns[order]
    bounds = np.searchsorted(place[node], np.arange(place.max(initial=0) + 2))
    for low, high in zip(bounds[-2::-1], bounds[:0:-1], strict=True):
        np.minimum.at(room_ns, before[low:high], room_ns[node[low:high]] + spare_ns[low:high])
    return room_ns


def last_node(graph: DependencyGraph, ends_ns: Ints) -> Ints:
    """Return what ended last in each step, -1 where nothing ran: of equals the host, and of these the last to begin.

    What still ran at the step's end ended there, as far as the step is concerned. ends_ns: [steps].
    """
    nodes = graph.nodes
    end_ns = np.minimum(nodes.end_ns, ends_ns[nodes.step])
    order = np.lexsort((np.arange(len(nodes)), nodes.on_host, end_ns, nodes.step))
    last = np.full(len(ends_ns), NO_NODE)
    last[nodes.step[order]] = order  # the last of each step is written last
    return last


def _latency(graph: DependencyGraph, before: Ints, after: Ints) -> Ints:
    launched, waited = graph.nodes.on_host[before], graph.nodes.on_host[after]
    return np.where(launched == waited, _GAP, np.where(launched, _LAUNCH, _WAKE))


class _Backwards:
    """Collects segments, many steps at a time, a step's last segment first."""

    def __init__(self) -> None:
        self._rows: list[tuple[Ints, ...]] = []

    def add(self, *row: Ints) -> None:
        """Add segments of as many steps: step, part, node, start_ns, end_ns."""
        self._rows.append(row)

    def back_to(self, step: Ints, part: Ints, node: Ints, start_ns: Ints, time_ns: Ints) -> Ints:
        """Add the stretch between start and time wherever there is one, and return the time that is left."""
        some = np.flatnonzero(start_ns < time_ns)
        self.add(step[some], part[some], node[some], start_ns[some], time_ns[some])
        return np.minimum(start_ns, time_ns)

    def forwards(self) -> Path:
        empty = (np.empty(0, np.int64),) * 5
        step, *rest = (np.concatenate(column) for column in zip(empty, *self._rows[::-1], strict=True))
        order = stable_order(step)
        return Path(step[order], *(column[order] for column in rest))

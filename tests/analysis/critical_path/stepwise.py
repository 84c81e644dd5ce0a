"""The critical path written a second time, step by step and node by node: plain lists, no arrays.

Edges, each from the work that had to be ready to the work that could then start:
program order on the host, order on a stream, a launch to its device work, device work to the device work that
needs its data (the op catalogue's needs and gives), and device work to the host segment that waited for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

from simtool.analysis.critical_path.critical_path import Part
from simtool.step.ops import CATALOGUE, Lane


@dataclass(frozen=True)
class Piece:
    """One row of the `events` table, as plain values."""

    step: int
    op: str
    lane: str
    start_ns: int
    end_ns: int
    wait_start_ns: int | None
    wait_end_ns: int | None
    flow: int


@dataclass
class Node:
    """A host segment or one piece of device work. A blocking op is two segments: up to its wait, and after it.

    edges: (index of the node waited for, when that one was ready). They point to earlier nodes only.
    """

    op: str
    lane: str
    start_ns: int
    end_ns: int
    edges: list[tuple[int, int]] = field(default_factory=list)

    @property
    def on_host(self) -> bool:
        """Whether the host thread ran it."""
        return self.lane == Lane.HOST.value

    def binding(self) -> tuple[int, int] | None:
        """Return the edge that was ready last; a tie goes to the device, whose back-to-back work leaves no gap."""
        return max(self.edges, key=lambda edge: edge[1], default=None)


@dataclass
class StepGraph:
    """The nodes of one step, in an order in which every edge points backwards."""

    nodes: list[Node]

    def last(self, end_ns: int) -> int | None:
        """What ended last by the step's end, or still ran: of equals the host, of these the last to begin."""

        def rank(index: int) -> tuple[int, bool, int]:
            return min(self.nodes[index].end_ns, end_ns), self.nodes[index].on_host, index

        return max(range(len(self.nodes)), key=rank, default=None)


def build_graph(pieces: Iterable[Piece], executors: Mapping[str, str], carried: list[Piece]) -> StepGraph:
    """Build the graph of one step.

    pieces: the step's events. executors: lane -> what runs it, one at a time in order; a lane not named runs by
    itself. carried: device work of earlier steps that was still running when this step began.
    """
    pieces = list(pieces)
    resumed = {piece.flow: piece.wait_end_ns for piece in pieces if piece.wait_end_ns is not None}
    entries = sorted(
        [
            *(_Entry(piece, wait, resumed.get(piece.flow)) for piece in pieces for wait in _segments(piece)),
            *(_Entry(p, False, None) for p in carried),
        ],
        key=_Entry.sort_key,
    )
    builder = _Builder(executors)
    for entry in entries:
        builder.add(entry)
    return StepGraph(builder.nodes)


def _segments(piece: Piece) -> tuple[bool, ...]:
    """One segment, or two (before and after the wait) for a host op that blocked."""
    return (False, True) if piece.wait_end_ns is not None else (False,)


@dataclass(frozen=True)
class _Entry:
    """resumed_ns: when the wait of the op that launched it ended, if it waited."""

    piece: Piece
    after_wait: bool
    resumed_ns: int | None

    @property
    def late(self) -> bool:
        """Whether its op launched it after the wait: what it waited for was over by then."""
        resumed_ns = self.resumed_ns
        return resumed_ns is not None and self.piece.start_ns >= resumed_ns and self.piece.end_ns > resumed_ns

    def span(self) -> tuple[int, int]:
        piece = self.piece
        if self.after_wait and piece.wait_end_ns is not None:
            return piece.wait_end_ns, piece.end_ns
        return piece.start_ns, piece.end_ns if piece.wait_start_ns is None else piece.wait_start_ns

    def sort_key(self) -> tuple[int, int, int]:
        """By start; at a tie the launch, its work, the segment that waited for it, and what that one launched."""
        rank = 2 if self.after_wait else 0 if self.piece.lane == Lane.HOST.value else 3 if self.late else 1
        return self.span()[0], self.piece.flow, rank


class _Builder:
    """Adds nodes in order; each looks back for what it waited for."""

    def __init__(self, executors: Mapping[str, str]) -> None:
        self.nodes: list[Node] = []
        self.last_host: int | None = None
        self._executors = executors
        self._order_on: dict[str, list[int]] = {}
        self._launches: dict[int, tuple[int, str]] = {}
        self._works: dict[int, list[int]] = {}
        self._giver_flow: dict[str, int] = {}

    def add(self, entry: _Entry) -> None:
        start, end = entry.span()
        node = Node(entry.piece.op, entry.piece.lane, start, max(start, end))
        if not node.on_host:
            self._add_device(node, entry.piece.flow)
        elif entry.after_wait:
            self._add_after_wait(node, entry.piece)
        else:
            self._add_host(node, entry.piece.flow)

    def _add_device(self, node: Node, flow: int) -> None:
        executor = self._executors.get(node.lane, node.lane)
        for before in (self._order_on.get(executor, []), self._works.get(flow, [])):
            if before and self.nodes[before[-1]].end_ns <= node.start_ns:
                self._link(node, before[-1])
        launch = self._launches.get(flow)
        if launch is not None:
            index, op = launch
            for need in CATALOGUE[op].needs if op in CATALOGUE else ():
                for earlier in self._works.get(self._giver_flow.get(need, -1), []):
                    self._link(node, earlier)
            self._link(node, index)
        index = self._append(node)
        self._order_on.setdefault(executor, []).append(index)
        self._works.setdefault(flow, []).append(index)

    def _add_host(self, node: Node, flow: int) -> None:
        self._link(node, self.last_host)
        self.last_host = self._append(node)
        self._launches[flow] = (self.last_host, node.op)
        for datum in CATALOGUE[node.op].gives if node.op in CATALOGUE else ():
            self._giver_flow[datum] = flow

    def _add_after_wait(self, node: Node, piece: Piece) -> None:
        works = [work for work in self._works.get(piece.flow, []) if self._over(work, node)]
        if not works:
            for order in self._order_on.values():
                works += [work for work in order[-2:] if self._over(work, node)][-1:]
        for work in works:
            self._link(node, work)
        self._link(node, self.last_host)
        self.last_host = self._append(node)
        self._launches[piece.flow] = (self.last_host, node.op)

    def _over(self, work: int, node: Node) -> bool:
        """Whether the work was over when the wait ended, but for what two clocks may disagree."""
        return self.nodes[work].end_ns <= node.start_ns + 1_000

    def _append(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _link(self, node: Node, index: int | None) -> None:
        if index is not None:
            node.edges.append((index, min(self.nodes[index].end_ns, node.start_ns)))


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
    time_ns, index = end_ns, graph.last(end_ns)
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
    last = graph.last(end_ns)
    if last is not None:
        slack[last] = 0
    for index in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[index]
        binding = node.binding()
        for before, ready_ns in node.edges:
            room = binding[1] - ready_ns if binding else 0
            slack[before] = min(slack[before], slack[index] + room)
    return slack


def stepwise(steps: pl.DataFrame, events: pl.DataFrame, executors: Mapping[str, str]):
    """Return the segments (step, part, op, lane, start, end) and the nodes (step, op, lane, duration, slack)."""
    segments, ran = [], []
    for step, start_ns, end_ns, graph in _graphs(steps, events, executors):
        segments += [(step, str(part), *rest) for part, *rest in _walk(graph, start_ns, end_ns)]
        room = _slack(graph, end_ns)
        for node, slack in zip(graph.nodes, room, strict=True):
            if node.end_ns > start_ns:
                ran.append((step, node.op, node.lane, node.end_ns - node.start_ns, slack))
    return segments, ran

"""What waited for what: edges from work that had to be ready to the work that could then start.

Program order on the host, order on an executor, a launch to its device work, an op's device work in launch order,
device work to the device work that needs its data (the op catalogue's needs and gives), and device work to the host
segment that waited for it. Edges stay inside a step and point from earlier nodes to later ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from simtool.analysis.nodes import Ints, Nodes
from simtool.step.ops import CATALOGUE

_Pairs = tuple[Ints, Ints]
_NONE = -1


@dataclass(frozen=True)
class Graph:
    """node, before, ready_ns: [edges], sorted by node. ready_ns: when `before` was ready, at most the node's start.

    binding, bound_ns: [nodes], the edge source that was ready last (-1: none) and when it was.
    """

    nodes: Nodes
    node: Ints
    before: Ints
    ready_ns: Ints
    binding: Ints
    bound_ns: Ints


def build_graph(nodes: Nodes, executors: Mapping[str, str]) -> Graph:
    """Build the graph. executors: lane -> what runs it, one at a time in order; lanes not named run by themselves."""
    pairs = list(_Edges(nodes, executors).all())
    node, before = (np.concatenate(side) for side in zip(*pairs, strict=True))
    order = np.argsort(node, kind="stable")
    node, before = node[order], before[order]
    ready_ns = np.minimum(nodes.end_ns[before], nodes.start_ns[node])
    binding, bound_ns = np.full(len(nodes), _NONE), np.zeros(len(nodes), np.int64)
    if len(node):
        opens = np.flatnonzero(np.append(True, node[1:] != node[:-1]))
        bound_ns[node[opens]] = np.maximum.reduceat(ready_ns, opens)
        latest = np.flatnonzero(ready_ns == bound_ns[node])[::-1]
        binding[node[latest]] = before[latest]  # of several, the first edge is written last
    return Graph(nodes, node, before, ready_ns, binding, bound_ns)


class _Edges:
    """Finds the edges of each kind; of edges that tie, those found first bind."""

    def __init__(self, nodes: Nodes, executors: Mapping[str, str]) -> None:
        self._nodes = nodes
        names = [executors.get(lane, lane) for lane in nodes.lane_names]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        executor = np.array([numbers[name] for name in names], np.int64)[nodes.lane]
        work = ~nodes.on_host
        self._works = np.flatnonzero(work)
        self._queues = [np.flatnonzero(work & (executor == number)) for number in numbers.values()]
        by_flow = self._works[np.argsort(nodes.flow[self._works], kind="stable")]
        self._by_flow, self._flows = by_flow, nodes.flow[by_flow]

    def all(self) -> Iterator[_Pairs]:
        """Yield (node, before) arrays."""
        hosts, resumed = np.flatnonzero(self._nodes.on_host), np.flatnonzero(self._nodes.resumed)
        for queue in self._queues:
            yield self._previous(queue, queue)
        yield self._in_flow()
        launches = self._launches()
        yield from self._data(*launches)
        yield launches
        waited = self._works_of(resumed, self._nodes.flow[resumed])
        yield waited
        alone = np.setdiff1d(resumed, waited[0], assume_unique=False)
        for queue in self._queues:
            yield self._previous(alone, queue)
        yield self._previous(hosts, hosts)

    def _previous(self, nodes: Ints, among: Ints) -> _Pairs:
        """Pair each node with the latest one before it in the same step; both sorted."""
        place = np.searchsorted(among, nodes) - 1
        nodes, before = nodes[place >= 0], among[place[place >= 0]]
        same = self._nodes.step[nodes] == self._nodes.step[before]
        return nodes[same], before[same]

    def _in_flow(self) -> _Pairs:
        same = self._flows[1:] == self._flows[:-1]
        return self._by_flow[1:][same], self._by_flow[:-1][same]

    def _launches(self) -> _Pairs:
        """Pair device work with the host segment that launched it: the latest of its flow."""
        first = np.flatnonzero(self._nodes.on_host & ~self._nodes.resumed)
        order = np.argsort(self._nodes.flow[first], kind="stable")
        size = len(self._nodes) + 1
        known = self._nodes.flow[first[order]] * size + first[order]
        place = np.searchsorted(known, self._nodes.flow[self._works] * size + self._works) - 1
        works, found = self._works[place >= 0], first[order][place[place >= 0]]
        same = self._nodes.flow[works] == self._nodes.flow[found]
        return works[same], found[same]

    def _data(self, works: Ints, launched_by: Ints) -> Iterator[_Pairs]:
        """Pair device work with the work of whichever op gave what its op needs, need by need."""
        needed = [CATALOGUE[name].needs if name in CATALOGUE else () for name in self._nodes.op_names]
        given = [CATALOGUE[name].gives if name in CATALOGUE else () for name in self._nodes.op_names]
        first = self._nodes.on_host & ~self._nodes.resumed
        for place in range(max(map(len, needed), default=0)):
            for datum in dict.fromkeys(needs[place] for needs in needed if len(needs) > place):
                asks = np.array([needs[place : place + 1] == (datum,) for needs in needed])
                gives = np.array([datum in gives for gives in given])
                asking = works[asks[self._nodes.op[launched_by]]]
                asking, givers = self._previous(asking, np.flatnonzero(first & gives[self._nodes.op]))
                yield self._works_of(asking, self._nodes.flow[givers])

    def _works_of(self, nodes: Ints, flows: Ints) -> _Pairs:
        """Pair each node with every earlier piece of device work of a flow."""
        low, high = (np.searchsorted(self._flows, flows, side) for side in ("left", "right"))
        counts = high - low
        starts = np.repeat(low - np.append(0, np.cumsum(counts)[:-1]), counts) if len(counts) else low
        nodes, before = np.repeat(nodes, counts), self._by_flow[starts + np.arange(counts.sum())]
        earlier = before < nodes
        return nodes[earlier], before[earlier]

"""What waited for what: edges from work that had to be ready to the work that could then start.

Program order on each host thread, order on an executor (of an import: on a stream), a launch to its device work, an
op's device work in launch order,
device work to the device work that needs its data (the op catalogue's needs and gives), and device work to the host
segment that waited for it. Edges stay inside a step and point from earlier nodes to later ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from simtool.analysis.critical_path.nodes import Nodes
from simtool.analysis.critical_path.pieces import NO_FLOW, Ints
from simtool.step.ops import CATALOGUE

_Pairs = tuple[Ints, Ints]
_NONE = -1
#: How far the clocks of host and device may disagree on the end of a wait.
_CLOCKS_NS = 1_000


@dataclass(frozen=True)
class DependencyGraph:
    """node, before, ready_ns: [edges]. ready_ns: when `before` was ready, at most the node's start.

    binding, bound_ns: [nodes], the edge source that was ready last (-1: none) and when it was.
    """

    nodes: Nodes
    node: Ints
    before: Ints
    ready_ns: Ints
    binding: Ints
    bound_ns: Ints


def build_graph(nodes: Nodes, executors: Mapping[str, str]) -> DependencyGraph:
    """Build the graph. executors: lane -> what runs it, one at a time in order; lanes not named run by themselves."""
    pairs = list(_Edges(nodes, executors).all())
    node, before = (np.concatenate(side) for side in zip(*pairs, strict=True))
    ready_ns = np.minimum(nodes.end_ns[before], nodes.start_ns[node])
    binding, bound_ns = np.full(len(nodes), _NONE), np.full(len(nodes), ready_ns.min(initial=0))
    np.maximum.at(bound_ns, node, ready_ns)
    latest = np.flatnonzero(ready_ns == bound_ns[node])[::-1]
    binding[node[latest]] = before[latest]  # of several, the first edge is written last
    return DependencyGraph(nodes=nodes, node=node, before=before, ready_ns=ready_ns, binding=binding, bound_ns=bound_ns)


class _Edges:
    """Finds the edges of each kind; of edges that tie, those found first bind."""

    def __init__(self, nodes: Nodes, executors: Mapping[str, str]) -> None:
        self._nodes = nodes
        names = [executors.get(lane, lane) for lane in nodes.names.lanes]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        executor = np.array([numbers[name] for name in names], np.int64)[nodes.lane]
        queue = executor * (nodes.track.max(initial=0) + 1) + nodes.track
        works, hosts = np.flatnonzero(~nodes.on_host), np.flatnonzero(nodes.on_host)
        self._works = works
        self._queues = [works[np.flatnonzero(queue[works] == number)] for number in np.unique(queue[works])]
        self._threads = [hosts[np.flatnonzero(queue[hosts] == number)] for number in np.unique(queue[hosts])]
        self._launching = np.flatnonzero(nodes.on_host & ~nodes.resumed)
        self._by_flow = works[np.argsort(nodes.flow[works], kind="stable")]
        flows = np.arange(nodes.flow.max(initial=-1) + 2)
        self._first_of_flow = np.searchsorted(nodes.flow[self._by_flow], flows)  # places in _by_flow, and their end

    def all(self) -> Iterator[_Pairs]:
        """Yield (node, before) arrays."""
        resumed = np.flatnonzero(self._nodes.resumed)
        for queue in self._queues:
            yield self._done(*self._in_a_row(queue, self._nodes.step), within_ns=0)
        yield self._done(*self._in_a_row(self._by_flow, self._nodes.flow), within_ns=0)
        yield self._other_streams()
        launches = self._launches()
        yield from self._data(*launches)
        yield launches
        known = resumed[np.flatnonzero(self._nodes.needed_flow[resumed] != NO_FLOW)]
        waited = self._done(*self._works_of(known, self._nodes.needed_flow[known]), within_ns=_CLOCKS_NS)
        yield waited
        has_works = np.zeros(len(self._nodes), bool)
        has_works[waited[0]] = True
        alone = resumed[np.flatnonzero(~has_works[resumed])]
        for queue in self._queues:
            yield self._last_done(alone, queue)
        for thread in self._threads:
            yield self._in_a_row(thread, self._nodes.step)

    def _in_a_row(self, nodes: Ints, group: Ints) -> _Pairs:
        """Pair each node with the one before it in this row, where both are of one group."""
        same = np.flatnonzero(group[nodes[1:]] == group[nodes[:-1]])
        return nodes[same + 1], nodes[same]

    def _previous(self, nodes: Ints, among: Ints) -> _Pairs:
        """Pair each node with the latest one before it in the same step; both sorted."""
        place = np.searchsorted(among, nodes) - 1
        some = np.flatnonzero(place >= 0)
        nodes, before = nodes[some], among[place[some]]
        same = np.flatnonzero(self._nodes.step[nodes] == self._nodes.step[before])
        return nodes[same], before[same]

    def _done(self, nodes: Ints, before: Ints, within_ns: int) -> _Pairs:
        """Keep the pairs in which the earlier work was over when the later node began: it cannot wait for the rest."""
        over = np.flatnonzero(self._nodes.end_ns[before] <= self._nodes.start_ns[nodes] + within_ns)
        return nodes[over], before[over]

    def _last_done(self, nodes: Ints, among: Ints) -> _Pairs:
        """Pair each node with a queue's latest work that was over by then: the last to begin, or the one before."""
        place = np.searchsorted(among, nodes) - 1
        found = [(nodes[:0], nodes[:0])]
        for back in (0, 1):
            some = np.flatnonzero(place >= back)
            pairs = nodes[some], among[place[some] - back]
            same = np.flatnonzero(self._nodes.step[pairs[0]] == self._nodes.step[pairs[1]])
            kept = self._done(pairs[0][same], pairs[1][same], within_ns=_CLOCKS_NS)
            found.append(kept)
            missing = ~np.isin(nodes, kept[0])
            nodes, place = nodes[missing], place[missing]
        later, before = (np.concatenate(side) for side in zip(*found, strict=True))
        return later, before

    def _other_streams(self) -> _Pairs:
        """Pair an import's device work with what was over last before it: another stream's work, if it waited for that.

        A profile does not say which stream waits for which; own traces do, by the data their ops need.
        """
        tracks = self._nodes.track[self._works]
        if not len(tracks) or (tracks == tracks[0]).all():
            return tracks[:0], tracks[:0]
        step, start_ns, end_ns = self._nodes.step, self._nodes.start_ns, self._nodes.end_ns
        by_end = self._works[np.lexsort((end_ns[self._works], step[self._works]))]
        first_ns = start_ns.min()
        size = int(max(end_ns.max(), start_ns.max()) - first_ns) + 1
        ends = step[by_end] * size + np.clip(end_ns[by_end] - first_ns, 0, size - 1)
        place = np.searchsorted(ends, step[self._works] * size + (start_ns[self._works] - first_ns), "right") - 1
        some = np.flatnonzero(place >= 0)
        nodes, before = self._works[some], by_end[place[some]]
        same = np.flatnonzero((step[nodes] == step[before]) & (before < nodes))
        return nodes[same], before[same]

    def _launches(self) -> _Pairs:
        """Pair device work with the host segment that launched it: the latest of its flow, before or after a wait."""
        flow, size = self._nodes.flow, len(self._nodes)
        hosts = np.flatnonzero(self._nodes.on_host)
        by_flow = hosts[np.argsort(flow[hosts], kind="stable")]
        place = np.searchsorted(flow[by_flow] * size + by_flow, flow[self._works] * size + self._works) - 1
        some = np.flatnonzero(place >= 0)
        works, found = self._works[some], by_flow[place[some]]
        same = np.flatnonzero(flow[works] == flow[found])
        return works[same], found[same]

    def _data(self, works: Ints, launched_by: Ints) -> Iterator[_Pairs]:
        """Pair device work with the work of whichever op gave what its op needs, need by need."""
        ops = [CATALOGUE.get(name) for name in self._nodes.names.ops]
        needed = [op.needs if op else () for op in ops]
        asking_op, giving_op = self._nodes.op[launched_by], self._nodes.op[self._launching]
        for place in range(max(map(len, needed), default=0)):
            for datum in dict.fromkeys(needs[place] for needs in needed if len(needs) > place):
                asks = np.array([needs[place : place + 1] == (datum,) for needs in needed])
                gives = np.array([op is not None and datum in op.gives for op in ops])
                asking, giving = np.flatnonzero(asks[asking_op]), np.flatnonzero(gives[giving_op])
                served, givers = self._previous(works[asking], self._launching[giving])
                yield self._works_of(served, self._nodes.flow[givers])

    def _works_of(self, nodes: Ints, flows: Ints) -> _Pairs:
        """Pair each node with every earlier piece of device work of a flow."""
        low, counts = self._first_of_flow[flows], self._first_of_flow[flows + 1] - self._first_of_flow[flows]
        opens = np.cumsum(counts) - counts
        nodes = np.repeat(nodes, counts)
        before = self._by_flow[np.repeat(low - opens, counts) + np.arange(len(nodes))]
        earlier = np.flatnonzero(before < nodes)
        return nodes[earlier], before[earlier]

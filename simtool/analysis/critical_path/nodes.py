"""The pieces of many steps as nodes: host segments and device work, in an order in which every wait looks back.

A blocking host op is two segments, up to its wait and after it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simtool.analysis.critical_path.pieces import NO_FLOW, Flags, Ints, Names, Pieces


@dataclass(frozen=True)
class Nodes:
    """All arrays: [nodes], sorted by step, start, flow.

    At a tie: a launch, its work, the segment that waited for it, and work that this segment launched.

    step: place in the block's steps. op, lane: places in `names`. flow: numbers (step, flow) pairs.
    resumed: the host segment after a wait. start_ns, end_ns: ns. track: which thread or stream of its lane.
    needed_flow: the flow whose work a wait needs: its own, unless the trace says another (NO_FLOW: of another step).
    """

    names: Names
    step: Ints
    op: Ints
    lane: Ints
    flow: Ints
    start_ns: Ints
    end_ns: Ints
    on_host: Flags
    resumed: Flags
    track: Ints
    needed_flow: Ints

    def __len__(self) -> int:
        return len(self.step)

    def owners(self, node: Ints) -> tuple[Ints, Ints]:
        """Return op and lane of each node; of -1, what nobody did."""
        nobody = (self.names.nobody, self.names.host)
        op, lane = (np.append(of, last)[node] for of, last in zip((self.op, self.lane), nobody, strict=True))
        return op, lane


def make_nodes(pieces: Pieces) -> Nodes:
    """Make the nodes of one block."""
    again = np.flatnonzero(pieces.waited)
    piece = np.append(np.arange(len(pieces.step)), again)
    resumed = np.arange(len(piece)) >= len(pieces.step)
    start_ns = np.append(pieces.start_ns, pieces.resumed_ns[again])
    end_ns = np.append(pieces.paused_ns, pieces.end_ns[again])
    flows = _flows(pieces)
    step, flow, on_host = pieces.step[piece], flows[piece], (pieces.lane == pieces.names.host)[piece]
    rank = np.where(resumed, 2, np.where(on_host, 0, np.where(_late(flow, resumed, start_ns, end_ns), 3, 1)))
    order = np.lexsort((flow * 4 + rank, start_ns, step))
    piece, start_ns = piece[order], start_ns[order]
    return Nodes(
        names=pieces.names,
        step=step[order],
        op=pieces.op[piece],
        lane=pieces.lane[piece],
        flow=flow[order],
        start_ns=start_ns,
        end_ns=np.maximum(start_ns, end_ns[order]),
        on_host=on_host[order],
        resumed=resumed[order],
        track=pieces.track[piece],
        needed_flow=_needed_flows(pieces, flows)[piece],
    )


def _late(flow: Ints, resumed: Flags, start_ns: Ints, end_ns: Ints) -> Flags:
    """Return which pieces began no sooner than their op's wait ended: an op that syncs launched them after it."""
    never = np.iinfo(np.int64).max
    waited_until_ns = np.full(flow.max(initial=-1) + 1, never)
    waited_until_ns[flow[resumed]] = start_ns[resumed]
    late: Flags = (start_ns >= waited_until_ns[flow]) & (end_ns > waited_until_ns[flow])
    return late


def _flows(pieces: Pieces) -> Ints:
    """Number the flows of each step; pieces are sorted by both."""
    step, flow = pieces.step, pieces.flow
    return np.cumsum(np.append(False, (step[1:] != step[:-1]) | (flow[1:] != flow[:-1])))[: len(step)]


def _needed_flows(pieces: Pieces, flows: Ints) -> Ints:
    """The number of the flow that each piece's wait needs."""
    said = np.flatnonzero(pieces.waits_for != NO_FLOW)
    if not len(said):
        return flows
    size = max(int(pieces.flow.max()), int(pieces.waits_for.max())) + 1
    known, wanted = pieces.step * size + pieces.flow, pieces.step[said] * size + pieces.waits_for[said]
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    needed = flows.copy()
    needed[said] = np.where(known[place] == wanted, flows[place], NO_FLOW)
    return needed

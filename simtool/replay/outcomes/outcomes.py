"""What the drafter does at each anchor of each request: looked up in the trace, never invented.

The block drafted at an anchor depends on the anchor alone (greedy decoding), so the recorded outcome holds under
every placement. Where the trace holds none, strict mode refuses and resample mode takes a near one and counts it.
All of that follows from the trace and the requests, so it is settled once, in arrays, before the replay begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simtool.errors import TraceError
from simtool.replay.drawn import DrawnTrace
from simtool.replay.outcomes.blocks import Blocks, Found, read_blocks
from simtool.replay.outcomes.draws import read_drawn
from simtool.replay.outcomes.substitutes import Known, stand_ins
from simtool.replay.scenario import OutcomeMode
from simtool.step.scheduler import Request
from simtool.trace.trace import Trace


@dataclass(frozen=True)
class Outcomes:
    """The outcome at every anchor that a request can visit; the anchor's place is `base[request] + anchor`.

    base, visits: [requests]; visits: how many anchors a request has. block: [places], the row of `blocks` that is
    drafted there. match_run: [places], 0..N. known: [places], whether there is an outcome; where not, the other arrays
    tell nothing. substituted: [places], whether it is made up from near ones. remedy: for one that is not known.
    """

    blocks: Blocks
    requests: Sequence[Request]
    base: NDArray[np.int64]
    visits: NDArray[np.int64]
    block: NDArray[np.int32]
    match_run: NDArray[np.int16]
    known: NDArray[np.bool_]
    substituted: NDArray[np.bool_]
    remedy: _Remedy

    @cached_property
    def complete(self) -> bool:
        """Whether every anchor is known, so that no lookup can fail."""
        return bool(self.known.all())

    @cached_property
    def any_substituted(self) -> bool:
        """Whether any anchor is made up."""
        return bool(self.substituted.any())

    def paths(self, places: Sequence[int]) -> NDArray[np.float64]:
        """Return the survival of each draft of the blocks at these places: [places, N]."""
        return self.blocks.paths(self.block[places])

    def confidence(self, places: Sequence[int]) -> NDArray[np.float64]:
        """Return the confidence, as decisions read it, of each draft of the blocks at these places: [places, N]."""
        return self.blocks.read(self.block[list(places)])

    def at_temperatures(self, temperatures: tuple[float, ...]) -> Outcomes:
        """Return the same outcomes, with the confidence that decisions read at these temperatures."""
        return replace(self, blocks=replace(self.blocks, temperatures=temperatures)) if temperatures else self

    def missing(self, request: int, anchor: int) -> TraceError:
        """Return the error that says that an anchor of a request (by index), which is visited, is not known."""
        return self.remedy.error(self.requests[request].request_id, anchor)


@dataclass(frozen=True)
class _Remedy:
    """sampled, imported: the recording cannot be filled. some: requests of which some outcome is known."""

    source: str
    sampled: bool
    imported: bool
    some: frozenset[str]

    def error(self, request_id: str, anchor: int) -> TraceError:
        fill = f"run `simtool fill {self.source}` or record with --outcomes full"
        remedy = "a sampled recording cannot be filled" if self.sampled else fill
        remedy = "an import holds those that its run visited, and cannot be filled" if self.imported else remedy
        instead = ", or replay with --outcomes resample" if request_id in self.some else ""
        return TraceError(
            f"{self.source}: request {request_id} has no outcome at anchor {anchor}, which this placement visits; "
            f"{remedy}{instead}"
        )


def find_outcomes(trace: Trace, mode: OutcomeMode, requests: Sequence[Request], totals: Sequence[int]) -> Outcomes:
    """Return the outcomes of requests that will emit `totals` tokens; raises TraceError for a damaged table.

    A match run that is unknown because the output ends inside the block counts as a full match: the recorded
    tokens that were left all matched, and what lay beyond them is cut off anyway.
    """
    read = read_drawn(trace, requests) if isinstance(trace, DrawnTrace) else read_blocks(trace, requests)
    blocks, found = read
    prompts = np.array([request.prompt_tokens for request in requests], np.int64)
    visits = np.maximum(np.array(totals, np.int64) - 1, 0)
    base = np.cumsum(visits) - visits - prompts
    settled = _settle(found, prompts, visits, base, trace.manifest.sl)
    if mode == "resample":
        _fill_in(settled, found, blocks, base + prompts, prompts)
    counts = np.bincount(found.request[found.known], minlength=len(requests))
    some = frozenset(requests[i].request_id for i in np.flatnonzero(counts).tolist())
    return Outcomes(
        blocks=blocks,
        requests=requests,
        base=base,
        visits=visits,
        block=settled.block,
        match_run=settled.match_run,
        known=settled.known,
        substituted=settled.substituted,
        remedy=_Remedy(
            source=str(trace.path),
            sampled=not trace.manifest.settled,
            imported=trace.manifest.origin == "imported",
            some=some,
        ),
    )


@dataclass(frozen=True)
class _Settled:
    """What is known of each place. drafted: whether a block was drafted there, with or without a match run."""

    block: NDArray[np.int32]
    match_run: NDArray[np.int16]
    drafted: NDArray[np.bool_]
    known: NDArray[np.bool_]
    substituted: NDArray[np.bool_]


def _settle(found: Found, prompts: _Wholes, visits: _Wholes, base: _Wholes, drafts: int) -> _Settled:
    """What the trace holds, place by place."""
    places = int(visits.sum())
    settled = _Settled(
        block=np.zeros(places, np.int32),
        match_run=np.zeros(places, np.int16),
        drafted=np.zeros(places, np.bool_),
        known=np.zeros(places, np.bool_),
        substituted=np.zeros(places, np.bool_),
    )
    for part in found.parts():
        end = prompts[part.request] + visits[part.request]
        inside = (part.anchor >= prompts[part.request]) & (part.anchor < end)
        at = (base[part.request] + part.anchor)[inside]
        cut_off = ~part.known & (end - part.anchor < drafts)
        settled.block[at], settled.drafted[at] = part.block[inside], True
        settled.match_run[at] = np.where(cut_off, drafts, part.match_run)[inside]
        settled.known[at] = (part.known | cut_off)[inside]
    return settled


def _fill_in(settled: _Settled, found: Found, blocks: Blocks, first: _Wholes, prompts: _Wholes) -> None:
    """Put stand-ins where nothing is known, request by request. first: [requests], the place of the first anchor."""
    missing = np.flatnonzero(~settled.known)
    owners = np.searchsorted(first, missing, side="right") - 1
    for request in np.unique(owners).tolist():
        low, high = np.searchsorted(found.request, [request, request + 1])
        of_it = np.arange(low, high)[found.known[low:high]]
        if not len(of_it):
            continue
        known = Known(found.anchor[of_it].astype(np.int64), found.block[of_it], found.match_run[of_it])
        at = missing[owners == request]
        anchors = at - first[request] + prompts[request]
        settled.block[at], settled.match_run[at] = stand_ins(
            known, anchors, settled.block[at], settled.drafted[at], blocks.confidence
        )
        settled.known[at] = settled.substituted[at] = True


_Wholes = NDArray[np.int64]

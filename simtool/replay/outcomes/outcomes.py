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
from simtool.replay.outcomes.blocks import Blocks, Found, read_blocks
from simtool.replay.outcomes.drawn import DrawnTrace
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
    tell nothing. substituted: [places], whether it is made up from near ones. some: [requests], whether the trace knows
    any. remedy: for one that is not known.
    """

    blocks: Blocks
    requests: Sequence[Request]
    base: NDArray[np.int64]
    visits: NDArray[np.int64]
    block: NDArray[np.int32]
    match_run: NDArray[np.int16]
    known: NDArray[np.bool_]
    substituted: NDArray[np.bool_]
    some: NDArray[np.bool_]
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
        return self.remedy.error(self.requests[request].request_id, anchor, some=bool(self.some[request]))


@dataclass(frozen=True)
class _Remedy:
    """sampled, imported: the recording cannot be filled."""

    source: str
    sampled: bool
    imported: bool

    def error(self, request_id: str, anchor: int, *, some: bool) -> TraceError:
        """Return the error; some: an outcome of the request is known."""
        fill = f"run `simtool fill {self.source}` or record with --outcomes full"
        remedy = "a sampled recording cannot be filled" if self.sampled else fill
        remedy = "an import holds those that its run visited, and cannot be filled" if self.imported else remedy
        instead = ", or replay with --outcomes resample" if some else ""
        return TraceError(
            f"{self.source}: request {request_id} has no outcome at anchor {anchor}, which this placement visits; "
            f"{remedy}{instead}"
        )


def find_outcomes(trace: Trace, mode: OutcomeMode, requests: Sequence[Request], totals: Sequence[int]) -> Outcomes:
    """Return the outcomes of requests that will emit `totals` tokens; raises TraceError for a damaged table.

    A match run that is unknown because the output ends inside the block counts as a full match: the recorded
    tokens that were left all matched, and what lay beyond them is cut off anyway.
    """
    prompts = np.array([request.prompt_tokens for request in requests], np.int64)
    visits = np.maximum(np.array(totals, np.int64) - 1, 0)
    settled = _Settled.none(prompts, visits, trace.manifest.sl, resample=mode == "resample")
    if isinstance(trace, DrawnTrace):
        blocks = read_drawn(trace, requests, settled.take)
    else:
        blocks = read_blocks(trace, requests, settled.take)
    return Outcomes(
        blocks=blocks,
        requests=requests,
        base=settled.base,
        visits=visits,
        block=settled.block,
        match_run=settled.match_run,
        known=settled.known,
        substituted=settled.substituted,
        some=settled.some,
        remedy=_Remedy(
            source=str(trace.path),
            sampled=not trace.manifest.settled,
            imported=trace.manifest.origin == "imported",
        ),
    )


@dataclass(frozen=True)
class _Settled:
    """What is known of each place so far. prompts, visits, base, some: [requests]; the others: [places].

    some: whether any outcome of it is known. drafted: whether a block was drafted there, with or without a match run.
    resample: stand-ins are put where nothing is known.
    """

    prompts: _Wholes
    visits: _Wholes
    base: _Wholes
    drafts: int
    resample: bool
    some: NDArray[np.bool_]
    block: NDArray[np.int32]
    match_run: NDArray[np.int16]
    drafted: NDArray[np.bool_]
    known: NDArray[np.bool_]
    substituted: NDArray[np.bool_]

    @classmethod
    def none(cls, prompts: _Wholes, visits: _Wholes, drafts: int, *, resample: bool) -> _Settled:
        """Nothing is known yet."""
        places = int(visits.sum())
        return cls(
            prompts=prompts,
            visits=visits,
            base=np.cumsum(visits) - visits - prompts,
            drafts=drafts,
            resample=resample,
            some=np.zeros(len(prompts), np.bool_),
            block=np.zeros(places, np.int32),
            match_run=np.zeros(places, np.int16),
            drafted=np.zeros(places, np.bool_),
            known=np.zeros(places, np.bool_),
            substituted=np.zeros(places, np.bool_),
        )

    def take(self, found: Found, blocks: Blocks) -> None:
        """Settle the places of some requests."""
        if len(found.request):
            self._settle(found)
            if self.resample:
                self._fill_in(found, blocks)

    def _settle(self, found: Found) -> None:
        """Put down what the trace knows; anchors that a request cannot visit have no place."""
        request, begins, counts = found.runs
        self.some[request] |= np.logical_or.reduceat(found.known, begins)
        first, end = self.prompts[request], self.prompts[request] + self.visits[request]
        if (found.anchor[begins] < first).any() or (found.anchor[begins + counts - 1] >= end).any():
            inside = (found.anchor >= np.repeat(first, counts)) & (found.anchor < np.repeat(end, counts))
            if inside.any():
                self._settle(found.where(inside))
            return
        at, match_run, known = np.repeat(self.base[request], counts) + found.anchor, found.match_run, found.known
        if not known.all():
            cut_off = ~known & (np.repeat(end, counts) - found.anchor < self.drafts)
            match_run, known = np.where(cut_off, self.drafts, match_run), known | cut_off
        self.block[at], self.match_run[at], self.known[at], self.drafted[at] = found.block, match_run, known, True

    def _fill_in(self, found: Found, blocks: Blocks) -> None:
        """Put stand-ins where nothing is known, request by request."""
        for request, begin, count in zip(*(each.tolist() for each in found.runs), strict=True):
            first = self.base[request] + self.prompts[request]
            at = first + np.flatnonzero(~self.known[first : first + self.visits[request]])
            of_it = begin + np.flatnonzero(found.known[begin : begin + count])
            if not len(at) or not len(of_it):
                continue
            known = Known(found.anchor[of_it].astype(np.int64), found.block[of_it], found.match_run[of_it])
            self.block[at], self.match_run[at] = stand_ins(
                known, at - self.base[request], self.block[at], self.drafted[at], blocks.confidence
            )
            self.known[at] = self.substituted[at] = True


_Wholes = NDArray[np.int64]

"""What the drafter does at each anchor of each request: looked up in the trace, never invented.

The block drafted at an anchor depends on the anchor alone (greedy decoding), so the recorded outcome holds under
every placement. Where the trace holds none, strict mode refuses and resample mode takes a near one and counts it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from simtool.errors import TraceError
from simtool.replay.scenario import OutcomeMode
from simtool.trace.bundle import Bundle

_NEIGHBOURS = 8


@dataclass(frozen=True)
class Outcome:
    """The block drafted at one anchor. confidence, draft_prob: [N]. match_run: 0..N; None: unknown."""

    confidence: Sequence[float]
    draft_prob: Sequence[float] | None
    match_run: int | None


@dataclass
class _Request:
    """One request's outcomes by anchor, and the anchors whose match run is known, in order."""

    by_anchor: dict[int, Outcome] = field(default_factory=dict)
    known: list[int] = field(default_factory=list)


class Outcomes:
    """Outcomes of a bundle. `looked_up` and `substituted` count the anchors asked for and those made up for."""

    def __init__(self, bundle: Bundle, mode: OutcomeMode) -> None:
        self._mode, self._source, self._drafts = mode, bundle.path, bundle.manifest.sl
        self._requests = _read(bundle)
        self.looked_up = 0
        self.substituted = 0

    def at(self, request_id: str, anchor: int, remaining: int) -> tuple[Outcome, int]:
        """Return the outcome at an anchor and its match run; remaining: tokens that the request will still emit.

        A match run that is unknown because the output ends inside the block counts as a full match: the recorded
        tokens that were left all matched, and what lay beyond them is cut off anyway.
        Raises TraceError in strict mode when the trace does not hold it.
        """
        self.looked_up += 1
        found = self._requests.get(request_id, _Request())
        outcome = found.by_anchor.get(anchor)
        if outcome is not None and outcome.match_run is not None:
            return outcome, outcome.match_run
        if outcome is not None and remaining < self._drafts:
            return outcome, self._drafts
        if self._mode == "strict" or not found.known:
            raise self._missing(request_id, anchor, known=bool(found.known))
        self.substituted += 1
        return _substitute(found, anchor, outcome)

    def _missing(self, request_id: str, anchor: int, *, known: bool) -> TraceError:
        remedy = f"run `simtool fill {self._source}` or record with --outcomes full"
        substitute = ", or replay with --outcomes resample" if known else ""
        return TraceError(
            f"{self._source}: request {request_id} has no outcome at anchor {anchor}, which this placement visits; "
            f"{remedy}{substitute}"
        )


def _substitute(found: _Request, anchor: int, outcome: Outcome | None) -> tuple[Outcome, int]:
    """The nearest anchor's outcome; where the confidence is known, the match run of the near anchor most like it."""
    middle = bisect_left(found.known, anchor)
    near = sorted(found.known[max(0, middle - _NEIGHBOURS) : middle + _NEIGHBOURS], key=lambda at: abs(at - anchor))
    candidates = [found.by_anchor[at] for at in near[:_NEIGHBOURS]]
    if outcome is None:
        chosen = candidates[0]
        outcome = chosen
    else:
        confidence = outcome.confidence
        chosen = min(candidates, key=lambda other: _distance(other.confidence, confidence))
    assert chosen.match_run is not None, "candidates are anchors whose match run is known"
    return outcome, chosen.match_run


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _read(bundle: Bundle) -> dict[str, _Request]:
    """Visited and filled outcomes merged: what the timed run saw, with the match run of whichever knows it."""
    requests: dict[str, _Request] = {}
    columns = ("request_id", "anchor_position", "confidence", "draft_prob", "match_run")
    rows = bundle.table("outcomes").sort("source", descending=True, maintain_order=True).select(columns)
    for request_id, anchor, confidence, draft_prob, match_run in rows.iter_rows():
        if len(confidence) != bundle.manifest.sl:
            raise TraceError(
                f"{bundle.path}: request {request_id}, anchor {anchor}: {len(confidence)} confidences in a block of "
                f"{bundle.manifest.sl} drafts; the bundle is damaged"
            )
        by_anchor = requests.setdefault(request_id, _Request()).by_anchor
        seen = by_anchor.get(anchor)
        if seen is None:
            by_anchor[anchor] = Outcome(confidence, draft_prob, match_run)
        elif seen.match_run is None:
            by_anchor[anchor] = replace(seen, match_run=match_run)
    for request in requests.values():
        request.known = sorted(at for at, outcome in request.by_anchor.items() if outcome.match_run is not None)
    return requests

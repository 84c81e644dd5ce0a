"""What the drafter does at each anchor of each request: looked up in the trace, never invented.

The block drafted at an anchor depends on the anchor alone (greedy decoding), so the recorded outcome holds under
every placement. Where the trace holds none, strict mode refuses and resample mode takes a near one and counts it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from simtool.errors import TraceError
from simtool.replay.scenario import OutcomeMode
from simtool.trace.trace import Trace

_NEIGHBOURS = 8


@dataclass(frozen=True)
class Outcome:
    """The block drafted at one anchor. confidence, draft_prob: [N]. match_run: 0..N; None: unknown."""

    confidence: Sequence[float]
    draft_prob: Sequence[float] | None
    match_run: int | None


@dataclass(frozen=True)
class _Request:
    """One request's outcomes. rows: by anchor, the row of `table`; outcomes are made when asked for, they are many."""

    table: pl.DataFrame
    rows: Mapping[int, int]

    def at(self, anchor: int) -> Outcome:
        """The outcome at an anchor that is among the rows."""
        return Outcome(*self.table.row(self.rows[anchor]))

    @cached_property
    def known(self) -> list[int]:
        """Anchors whose match run is known, in order."""
        if not self.rows:
            return []
        runs = self.table["match_run"]
        return [anchor for anchor, row in self.rows.items() if runs[row] is not None]


class Outcomes:
    """Outcomes of a trace. `looked_up` and `substituted` count the anchors asked for and those made up for."""

    def __init__(self, trace: Trace, mode: OutcomeMode) -> None:
        self._mode, self._source, self._drafts = mode, trace.path, trace.manifest.sl
        self._sampled = bool(trace.manifest.sampling.get("temperature"))
        self._requests = _read(trace)
        self.looked_up = 0
        self.substituted = 0

    def at(self, request_id: str, anchor: int, remaining: int) -> tuple[Outcome, int]:
        """Return the outcome at an anchor and its match run; remaining: tokens that the request will still emit.

        A match run that is unknown because the output ends inside the block counts as a full match: the recorded
        tokens that were left all matched, and what lay beyond them is cut off anyway.
        Raises TraceError in strict mode when the trace does not hold it.
        """
        self.looked_up += 1
        found = self._requests.get(request_id, _Request(pl.DataFrame(), {}))
        outcome = found.at(anchor) if anchor in found.rows else None
        if outcome is not None and outcome.match_run is not None:
            return outcome, outcome.match_run
        if outcome is not None and remaining < self._drafts:
            return outcome, self._drafts
        if self._mode == "strict" or not found.known:
            raise self._missing(request_id, anchor, known=bool(found.known))
        self.substituted += 1
        return _substitute(found, anchor, outcome)

    @property
    def substituted_share(self) -> float:
        """Share of the anchors asked for that were made up for."""
        return self.substituted / self.looked_up if self.looked_up else 0.0

    def _missing(self, request_id: str, anchor: int, *, known: bool) -> TraceError:
        fill = f"run `simtool fill {self._source}` or record with --outcomes full"
        remedy = "a sampled recording cannot be filled" if self._sampled else fill
        substitute = ", or replay with --outcomes resample" if known else ""
        return TraceError(
            f"{self._source}: request {request_id} has no outcome at anchor {anchor}, which this placement visits; "
            f"{remedy}{substitute}"
        )


def _substitute(found: _Request, anchor: int, outcome: Outcome | None) -> tuple[Outcome, int]:
    """The nearest anchor's outcome; where the confidence is known, the match run of the near anchor most like it."""
    middle = bisect_left(found.known, anchor)
    near = sorted(found.known[max(0, middle - _NEIGHBOURS) : middle + _NEIGHBOURS], key=lambda at: abs(at - anchor))
    candidates = [found.at(at) for at in near[:_NEIGHBOURS]]
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


def _read(trace: Trace) -> dict[str, _Request]:
    """Visited and filled outcomes merged: what the timed run saw, with the match run of whichever knows it."""
    _check_widths(trace)
    key = ["request_id", "anchor_position"]
    rows = trace.table("outcomes").sort(*key, "source", descending=[False, False, True])
    if rows.is_empty():
        return {}
    merged = rows.group_by(key, maintain_order=True).agg(
        pl.col("confidence", "draft_prob").first(), pl.col("match_run").drop_nulls().first()
    )
    table = merged.select("confidence", "draft_prob", "match_run")
    places = merged.select("request_id", "anchor_position").with_row_index("row")
    by_request = places.group_by("request_id", maintain_order=True).agg("anchor_position", "row")
    return {name: _Request(table, dict(zip(anchors, at, strict=True))) for name, anchors, at in by_request.iter_rows()}


def _check_widths(trace: Trace) -> None:
    wrong = trace.table("outcomes").filter(pl.col("confidence").list.len() != trace.manifest.sl)
    for request_id, anchor, confidence in wrong.select("request_id", "anchor_position", "confidence").iter_rows():
        raise TraceError(
            f"{trace.path}: request {request_id}, anchor {anchor}: {len(confidence)} confidences in a block of "
            f"{trace.manifest.sl} drafts; the trace is damaged"
        )

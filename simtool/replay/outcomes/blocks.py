"""The drafted blocks that a trace holds, as arrays: confidences, and at which anchor of which request each was drafted.

Visited and filled outcomes of one anchor are merged: what the timed run saw, with the match run of whichever knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from simtool.errors import TraceError
from simtool.files.stored_rows import StoredRows
from simtool.step.controller import survival
from simtool.step.scheduler import Request
from simtool.step.temperatures import calibrated
from simtool.trace.places import RequestNumbers
from simtool.trace.trace import Trace

#: Blocks whose survival is reckoned beforehand: tens of megabytes. Of more it is reckoned where it is asked for.
_MOST_KEPT = 1 << 19
_READ = ("request_id", "anchor_position", "confidence", "match_run")


@dataclass(frozen=True)
class DraftProbs:
    """The drafter's own probabilities of a trace's blocks, read when they are first asked for: a plan needs none."""

    trace: Trace

    def of(self, rows: NDArray[np.int32]) -> pl.Series:
        """Return those of some blocks, as a trace keeps them."""
        whole = self._whole
        return whole.gather(rows) if isinstance(whole, pl.Series) else _lists(whole.take(rows))

    @cached_property
    def _whole(self) -> StoredRows | pl.Series:
        """Of all blocks: numbers where each block has one a draft, else lists, null where there is none."""
        drafts, lists = self.trace.manifest.sl, list[pl.Series]()
        values = StoredRows(self.trace.height("outcomes"), drafts)
        for outcomes in self.trace.stretches("outcomes", "draft_prob"):
            part = outcomes["draft_prob"]
            if not lists and not part.null_count() and (part.list.len() == drafts).all():
                values.add(_rows(part, drafts))
            else:
                lists.append(part)
        return pl.concat([_lists(values.all()), *lists]) if lists else values


@dataclass(frozen=True)
class Blocks:
    """Drafted blocks, a row each. confidence: [blocks, N], as stored. draft_prob: theirs.

    temperatures: that decisions read the confidence at, by position; none: as it is.
    """

    confidence: NDArray[np.float32]
    draft_prob: DraftProbs
    temperatures: tuple[float, ...] = ()

    @cached_property
    def calibrated(self) -> NDArray[np.float32] | NDArray[np.float64]:
        """The confidence that a decision reads, of all blocks: [blocks, N]."""
        return calibrated(self.confidence, self.temperatures) if self.temperatures else self.confidence

    def read(self, rows: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the same of some blocks: [rows, N]."""
        return calibrated(self.confidence[rows], self.temperatures)

    def paths(self, rows: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the survival of each draft of some blocks, as the controller reckons it: [rows, N]."""
        return self.path[rows] if len(self.confidence) <= _MOST_KEPT else survival(self.read(rows))

    @cached_property
    def path(self) -> NDArray[np.float64]:
        """The same of all blocks: [blocks, N]."""
        return survival(self.calibrated)

    def columns(self, rows: NDArray[np.int32]) -> dict[str, pl.Series]:
        """Return confidence and draft_prob of some blocks, as a trace keeps them."""
        return {"confidence": _lists(self.confidence.take(rows, axis=0)), "draft_prob": self.draft_prob.of(rows)}


@dataclass(frozen=True)
class Found:
    """Where blocks were drafted, request after request, each's by anchor: each [found]; all of a request, or none.

    request: index. block: row of the blocks. match_run: 0..N where known, else it tells nothing.
    """

    request: NDArray[np.int32]
    anchor: NDArray[np.int32]
    block: NDArray[np.int32]
    match_run: NDArray[np.int16]
    known: NDArray[np.bool_]

    @property
    def runs(self) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """The requests, where the blocks of each begin, and how many it has; where there are any at all."""
        begins = np.flatnonzero(np.concatenate(([True], self.request[1:] != self.request[:-1])))
        return self.request[begins], begins, np.diff(begins, append=len(self.request))

    def where(self, wanted: NDArray[np.bool_]) -> Found:
        """Return some of them."""
        return Found(*(getattr(self, each.name)[wanted] for each in fields(self)))


#: Takes where the blocks of some requests were drafted; the blocks of those are read by then.
Take = Callable[[Found, Blocks], None]


def read_blocks(trace: Trace, requests: Sequence[Request], take: Take) -> Blocks:
    """Return the trace's blocks, and hand on where they were drafted, some requests after another.

    Raises TraceError for a block of another width.
    """
    numbers = RequestNumbers([request.request_id for request in requests])
    drafts, first = trace.manifest.sl, 0
    blocks = Blocks(np.empty((trace.height("outcomes"), drafts), np.float32), DraftProbs(trace))
    for outcomes in trace.stretches("outcomes", *_READ):
        _check_widths(trace, outcomes)
        blocks.confidence[first : first + len(outcomes)] = _rows(outcomes["confidence"], drafts)
        take(_found(outcomes, numbers, first), blocks)
        first += len(outcomes)
    return blocks


def read_found(trace: Trace, requests: Sequence[Request]) -> tuple[Blocks, Found]:
    """Return the trace's blocks and where all of them were drafted, by the requests' names and then anchor."""
    none = np.empty(0, np.int32)
    parts = [Found(none, none, none, np.empty(0, np.int16), np.empty(0, np.bool_))]
    blocks = read_blocks(trace, requests, lambda found, _: parts.append(found))
    return blocks, Found(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Found)))


def _found(outcomes: pl.DataFrame, numbers: RequestNumbers, first: int) -> Found:
    """Where the blocks of some outcomes were drafted; first: the row of the first of them."""
    runs = outcomes["match_run"]
    found = Found(
        request=numbers.of(outcomes["request_id"]).astype(np.int32),
        anchor=outcomes["anchor_position"].to_numpy(),
        block=np.arange(first, first + len(outcomes), dtype=np.int32),
        match_run=runs.fill_null(0).cast(pl.Int16).to_numpy(),
        known=runs.is_not_null().to_numpy(),
    )
    asked = found.request >= 0
    return _merged(found if asked.all() else found.where(asked))


def _merged(found: Found) -> Found:
    """Make one of the blocks of each anchor. A table's order is that of the sources' names: filled before visited."""
    ends = np.concatenate(((np.diff(found.anchor) != 0) | (np.diff(found.request) != 0), [True]))
    if not len(found.anchor) or ends.all():
        return found
    last = np.flatnonzero(ends)
    begins = np.concatenate(([0], last[:-1] + 1))
    tells = np.maximum.reduceat(np.where(found.known, np.arange(len(ends)), -1), begins)
    tells = np.where(tells >= 0, tells, last)
    merged = found.where(ends)
    return replace(merged, match_run=found.match_run[tells], known=found.known[tells])


def _rows(lists: pl.Series, drafts: int) -> NDArray[np.float32]:
    values: NDArray[np.float32] = lists.cast(pl.Array(pl.Float32, drafts)).to_numpy()
    return values


def _lists(rows: NDArray[np.float32]) -> pl.Series:
    return pl.Series(rows.reshape(-1)).reshape(rows.shape).cast(pl.List(pl.Float32))


def _check_widths(trace: Trace, outcomes: pl.DataFrame) -> None:
    wrong = (outcomes["confidence"].list.len() != trace.manifest.sl).arg_true()
    if len(wrong):
        request_id, anchor, confidence = outcomes.row(wrong[0])[:3]
        raise TraceError(
            f"{trace.path}: request {request_id}, anchor {anchor}: {len(confidence)} confidences in a block of "
            f"{trace.manifest.sl} drafts; the trace is damaged"
        )

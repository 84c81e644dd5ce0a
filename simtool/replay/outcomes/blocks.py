"""The drafted blocks that a trace holds, as arrays: confidences, and at which anchor of which request each was drafted.

Visited and filled outcomes of one anchor are merged: what the timed run saw, with the match run of whichever knows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from simtool.errors import TraceError
from simtool.step.controller import survival
from simtool.step.scheduler import Request
from simtool.step.temperatures import calibrated
from simtool.trace.places import RequestNumbers
from simtool.trace.trace import Trace

#: Blocks whose survival is reckoned beforehand: tens of megabytes. Of more it is reckoned where it is asked for.
_MOST_KEPT = 1 << 19
_READ = ("request_id", "anchor_position", "confidence", "draft_prob", "match_run", "source")


@dataclass(frozen=True)
class Blocks:
    """Drafted blocks, a row each. confidence: [blocks, N], as stored. draft_prob: likewise; of lists, and null where
    there is none, where not all blocks have N.

    temperatures: that decisions read the confidence at, by position; none: as it is.
    """

    confidence: NDArray[np.float32]
    draft_prob: NDArray[np.float32] | pl.Series
    temperatures: tuple[float, ...] = ()

    @cached_property
    def calibrated(self) -> NDArray[np.float64]:
        """The confidence that a decision reads, of all blocks: [blocks, N]."""
        return calibrated(self.confidence, self.temperatures)

    def read(self, rows: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the same of some blocks: [rows, N]."""
        return calibrated(self.confidence[rows], self.temperatures)

    def paths(self, rows: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the survival of each draft of some blocks, as the controller reckons it: [rows, N]."""
        return self.path[rows] if len(self.confidence) <= _MOST_KEPT else survival(self.read(rows))

    @cached_property
    def path(self) -> NDArray[np.float64]:
        """The same of all blocks: [blocks, N]."""
        path = np.empty(self.confidence.shape)
        for first in range(0, len(path), _MOST_KEPT):
            some = slice(first, first + _MOST_KEPT)
            path[some] = survival(calibrated(self.confidence[some], self.temperatures))
        return path

    def columns(self, rows: NDArray[np.int32]) -> dict[str, pl.Series]:
        """Return confidence and draft_prob of some blocks, as a trace keeps them."""
        prob = self.draft_prob
        return {
            "confidence": _lists(self.confidence[rows]),
            "draft_prob": prob.gather(rows) if isinstance(prob, pl.Series) else _lists(prob[rows]),
        }


@dataclass(frozen=True)
class Found:
    """Where blocks were drafted, by request and then anchor: each [found].

    request: index. block: row of the blocks. match_run: 0..N where known, else it tells nothing.
    """

    request: NDArray[np.int32]
    anchor: NDArray[np.int32]
    block: NDArray[np.int32]
    match_run: NDArray[np.int16]
    known: NDArray[np.bool_]

    def parts(self) -> Iterator[Found]:
        """Yield some after another, so that what is made of them may be large."""
        for first in range(0, len(self.request), _MOST_KEPT):
            some = slice(first, first + _MOST_KEPT)
            yield Found(*(getattr(self, name)[some] for name in self.__dataclass_fields__))


def read_blocks(trace: Trace, requests: Sequence[Request]) -> tuple[Blocks, Found]:
    """Return the trace's blocks and where they were drafted; raises TraceError for a block of another width."""
    numbers = RequestNumbers([request.request_id for request in requests])
    confidence = np.empty((trace.height("outcomes"), trace.manifest.sl), np.float32)
    probs: list[pl.Series] = []
    places: list[_Places] = []
    first = 0
    for outcomes in trace.stretches("outcomes", *_READ):
        _check_widths(trace, outcomes)
        confidence[first : first + len(outcomes)] = _rows(outcomes["confidence"], trace.manifest.sl)
        probs.append(outcomes["draft_prob"])
        places.append(_places(outcomes, numbers, first))
        first += len(outcomes)
    return Blocks(confidence, _as_array(probs, trace.manifest.sl)), _found(_joined(places))


class _Places(NamedTuple):
    """A row for each block of a request: which request, at which anchor, which block, what came of it, and whether the
    timed run saw that.
    """

    request: NDArray[np.int32]
    anchor: NDArray[np.int32]
    block: NDArray[np.int32]
    match_run: NDArray[np.int16]
    known: NDArray[np.bool_]
    visited: NDArray[np.bool_]

    def at(self, order: NDArray[np.int64]) -> _Places:
        """Return some of them, in this order."""
        return _Places._make(column[order] for column in self)


def _joined(parts: Sequence[_Places]) -> _Places:
    none = np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int32)
    start = _Places(*none, np.empty(0, np.int16), np.empty(0, np.bool_), np.empty(0, np.bool_))
    return _Places._make(np.concatenate(columns) for columns in zip(start, *parts, strict=True))


def _places(outcomes: pl.DataFrame, numbers: RequestNumbers, first: int) -> _Places:
    request = numbers.of(outcomes["request_id"])
    asked = np.flatnonzero(request >= 0)
    return _Places(
        request[asked].astype(np.int32),
        outcomes["anchor_position"].to_numpy()[asked],
        (first + asked).astype(np.int32),
        outcomes["match_run"].fill_null(0).cast(pl.Int16).to_numpy()[asked],
        outcomes["match_run"].is_not_null().to_numpy()[asked],
        (outcomes["source"] == "visited").to_numpy()[asked],
    )


def _found(places: _Places) -> Found:
    """Where blocks were drafted, in order."""
    lowest = int(places.anchor.min(initial=0))
    span = int(places.anchor.max(initial=0)) - lowest + 1
    key = places.request.astype(np.int64) * span + places.anchor - lowest
    if (np.diff(key) <= 0).any():  # a table holds each request's anchors in their order, and most have one block each
        order = np.lexsort((~places.visited, key))
        key, places = key[order], places.at(order)
    first = np.flatnonzero(np.diff(key, prepend=-1))
    told = first
    if len(first) < len(key):  # of blocks of one anchor, the first whose match run is known tells it
        tells = np.minimum.reduceat(np.where(places.known, np.arange(len(key)), len(key)), first)
        told = np.where(tells < len(key), tells, first)
    return Found(
        request=places.request[first],
        anchor=places.anchor[first],
        block=places.block[first],
        match_run=places.match_run[told],
        known=places.known[told],
    )


def _as_array(parts: Sequence[pl.Series], drafts: int) -> NDArray[np.float32] | pl.Series:
    """Lists as an array where each is there and has a value a draft."""
    if any(part.null_count() or (part.list.len() != drafts).any() for part in parts):
        return pl.concat(parts)
    return np.concatenate([np.empty((0, drafts), np.float32), *(_rows(part, drafts) for part in parts)])


def _rows(lists: pl.Series, drafts: int) -> NDArray[np.float32]:
    values: NDArray[np.float32] = lists.explode().to_numpy()
    return values.reshape(len(lists), drafts)


def _lists(rows: NDArray[np.float32]) -> pl.Series:
    return pl.Series(rows).arr.to_list()


def _check_widths(trace: Trace, outcomes: pl.DataFrame) -> None:
    wrong = outcomes.filter(pl.col("confidence").list.len() != trace.manifest.sl)
    for request_id, anchor, confidence in wrong.select("request_id", "anchor_position", "confidence").iter_rows():
        raise TraceError(
            f"{trace.path}: request {request_id}, anchor {anchor}: {len(confidence)} confidences in a block of "
            f"{trace.manifest.sl} drafts; the trace is damaged"
        )

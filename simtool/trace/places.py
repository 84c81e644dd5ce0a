"""Every anchor that the requests of a trace have, in one row: request by request, anchor by anchor.

What is told of each anchor is then an array, and finding it an index, where strings would have to be sorted and joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class RequestNumbers:
    """Numbers requests in the order given; their names differ."""

    names: Sequence[str] | pl.Series

    def of(self, request_ids: pl.Series) -> Ints:
        """Return the number of each; -1 for one that is not among them."""
        first = request_ids.rle_id().to_numpy()
        runs = int(first[-1]) + 1 if len(first) else 0
        if 2 * runs > len(first):
            return self._of(request_ids)
        numbers: Ints = self._of(request_ids.gather(np.flatnonzero(np.diff(first, prepend=np.uint32(runs)))))[first]
        return numbers

    def _of(self, request_ids: pl.Series) -> Ints:
        numbered = request_ids.cast(self._known, strict=False).to_physical()
        numbers: Ints = numbered.cast(pl.Int64).fill_null(-1).to_numpy()
        return numbers

    @cached_property
    def _known(self) -> pl.Enum:
        return pl.Enum(self.names)


@dataclass(frozen=True)
class Places:
    """first: [requests], the first anchor of each. begin: [requests + 1], the place of that, and the end of all."""

    numbers: RequestNumbers
    first: Ints
    begin: Ints

    def __len__(self) -> int:
        return int(self.begin[-1])

    def of(self, request: Ints, anchor: Ints) -> Ints:
        """Return the place of each anchor of requests by number; -1 for one that there is not."""
        if not len(self.first):
            return np.full(len(anchor), -1)
        behind = anchor - self.first[request]
        there = (request >= 0) & (behind >= 0) & (behind < self.begin[request + 1] - self.begin[request])
        return np.where(there, self.begin[request] + behind, -1)

    def at(self, place: int) -> tuple[int, int]:
        """Return the number of the request and the anchor that a place stands for."""
        request = int(np.searchsorted(self.begin, place, "right")) - 1
        return request, int(self.first[request] + place - self.begin[request])


def places_of(names: Sequence[str] | pl.Series, first: Ints, counts: Ints) -> Places:
    """Return the places of requests that have so many anchors each, [requests]."""
    return Places(RequestNumbers(names), first, np.concatenate(([0], np.cumsum(counts))))

"""The drafted blocks that a trace holds, as arrays: confidences, and at which anchor of which request each was drafted.

Visited and filled outcomes of one anchor are merged: what the timed run saw, with the match run of whichever knows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from simtool.errors import TraceError
from simtool.step.controller import survival
from simtool.step.scheduler import Request
from simtool.step.temperatures import calibrated
from simtool.trace.trace import Trace


@dataclass(frozen=True)
class Blocks:
    """Drafted blocks, a row each. confidence: [blocks, N], as stored. draft_prob: [blocks] of lists, null: none.

    temperatures: that decisions read the confidence at, by position; none: as it is.
    """

    confidence: NDArray[np.float32]
    draft_prob: pl.Series
    temperatures: tuple[float, ...] = ()

    @cached_property
    def calibrated(self) -> NDArray[np.float64]:
        """The confidence that a decision reads: [blocks, N]."""
        return calibrated(self.confidence, self.temperatures)

    @cached_property
    def path(self) -> NDArray[np.float64]:
        """The survival of each draft, as the controller reckons it: [blocks, N]."""
        return survival(self.calibrated)


@dataclass(frozen=True)
class Found:
    """Where blocks were drafted, by request and then anchor: each [found].

    request: index. block: row of the blocks. match_run: 0..N where known, else it tells nothing.
    """

    request: NDArray[np.int64]
    anchor: NDArray[np.int64]
    block: NDArray[np.int32]
    match_run: NDArray[np.int16]
    known: NDArray[np.bool_]


def read_blocks(trace: Trace, requests: Sequence[Request]) -> tuple[Blocks, Found]:
    """Return the trace's blocks and where they were drafted; raises TraceError for a block of another width."""
    table = trace.table("outcomes")
    _check_widths(trace, table)
    confidence = table["confidence"].explode().to_numpy().reshape(table.height, trace.manifest.sl)
    blocks = Blocks(np.ascontiguousarray(confidence, np.float32), table["draft_prob"])
    names = pl.DataFrame({"request_id": [request.request_id for request in requests]}).with_row_index("request")
    places = table.select("request_id", "anchor_position", "match_run", "source").with_row_index("block")
    return blocks, _found(places.join(names, on="request_id", maintain_order="left"))


def _found(places: pl.DataFrame) -> Found:
    """Where blocks were drafted, in order; places: a row for each block of a request."""
    request, anchor, block = (
        places[name].cast(pl.Int64).to_numpy() for name in ("request", "anchor_position", "block")
    )
    lowest = int(anchor.min(initial=0))
    key = request * (int(anchor.max(initial=0)) - lowest + 1) + anchor - lowest
    order = np.argsort(key, kind="stable")  # quick: a table holds each request's anchors in their order already
    if (np.diff(key[order]) == 0).any():
        order = np.lexsort(((places["source"] != "visited").to_numpy(), key))
    known = places["match_run"].is_not_null().to_numpy()[order]
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    # of blocks of one anchor, the first whose match run is known tells it
    tells = np.minimum.reduceat(np.where(known, np.arange(len(key)), len(key)), first) if len(key) else first
    told = np.where(tells < len(key), tells, first)
    return Found(
        request=request[order][first],
        anchor=anchor[order][first],
        block=block[order][first].astype(np.int32),
        match_run=places["match_run"].fill_null(0).cast(pl.Int16).to_numpy()[order][told],
        known=known[told],
    )


def _check_widths(trace: Trace, table: pl.DataFrame) -> None:
    wrong = table.filter(pl.col("confidence").list.len() != trace.manifest.sl)
    for request_id, anchor, confidence in wrong.select("request_id", "anchor_position", "confidence").iter_rows():
        raise TraceError(
            f"{trace.path}: request {request_id}, anchor {anchor}: {len(confidence)} confidences in a block of "
            f"{trace.manifest.sl} drafts; the trace is damaged"
        )

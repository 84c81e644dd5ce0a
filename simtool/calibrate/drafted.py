"""The blocks that a run drafted, as arrays: what its confidence foretold, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from simtool.trace.trace import Trace

Reals = NDArray[np.float64]
#: Blocks that are judged, about: a share of so many has a standard error of 0.1 % at most, and more take memory.
_MOST_BLOCKS = 1 << 18
_OUTCOME = ("request_id", "anchor_position", "confidence", "match_run", "source")


@dataclass(frozen=True)
class DraftedBlocks:
    """Drafted blocks in the order of (request, anchor). confidence: [blocks, N]. match_run: [blocks], accepted drafts
    when nothing is pruned. offered: [blocks], positions whose outcome is known (N, or the pruned prefix).
    request: [blocks], a number per request. cut: whether there are more blocks.
    """

    confidence: NDArray[np.floating[Any]]
    match_run: NDArray[np.int64]
    offered: NDArray[np.int64]
    request: NDArray[np.int64]
    cut: bool = False

    @property
    def positions(self) -> int:
        """N."""
        return int(self.confidence.shape[1])

    @property
    def forecast(self) -> Reals:
        """Probability that the first k drafts are accepted: [blocks, N]."""
        return np.stack([*self.forecasts()], axis=1)

    def forecasts(self) -> Iterator[Reals]:
        """Yield the same position by position, [blocks] each: millions of blocks take no more room than one column."""
        path = np.ones(len(self.confidence))
        for column in self.confidence.T:
            path = path * np.clip(column.astype(np.float64), 0, 1)
            yield path


def blocks_of(trace: Trace) -> DraftedBlocks | None:
    """Return the blocks that a run visited, of its first requests where there are many; None without confidence.

    Outcomes are whole (match runs); without them rows serve, whose outcome is known up to the prefix only.
    """
    return _judged(_visited(trace)) or _judged(_seen(trace))


def _visited(trace: Trace) -> Iterator[pl.DataFrame]:
    """Outcomes of the timed run in the order of (request, anchor): request_id, confidence, offered, match."""
    length = pl.col("confidence").list.len().cast(pl.Int64).alias("offered")
    for outcomes in trace.stretches("outcomes", *_OUTCOME):
        known = (pl.col("source") == "visited") & pl.col("match_run").is_not_null() & pl.col("confidence").is_not_null()
        yield outcomes.filter(known).select("request_id", "confidence", length, match="match_run")


def _seen(trace: Trace) -> Iterator[pl.DataFrame]:
    """The same of rows, which stand step after step and are sorted here."""
    rows = trace.columns("rows", "request_id", "anchor_position", "confidence", "prefix_len", "accepted")
    ordered = rows.filter(pl.col("confidence").is_not_null()).sort("request_id", "anchor_position")
    yield ordered.select("request_id", "confidence", offered=pl.col("prefix_len").cast(pl.Int64), match="accepted")


def _judged(parts: Iterable[pl.DataFrame]) -> DraftedBlocks | None:
    kept: list[pl.DataFrame] = []
    judged, cut = 0, False
    for part in parts:
        cut = judged >= _MOST_BLOCKS and not part.is_empty()
        if cut:
            break
        kept.append(part)
        judged += len(part)
    if not judged:
        return None
    known = pl.concat(kept)
    confidence = known["confidence"].explode().to_numpy().reshape(len(known), -1)
    return DraftedBlocks(
        confidence,
        known["match"].cast(pl.Int64).to_numpy(),
        known["offered"].to_numpy(),
        known["request_id"].rle_id().cast(pl.Int64).to_numpy(),
        cut,
    )

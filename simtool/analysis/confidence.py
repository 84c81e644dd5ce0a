"""How good the confidence is, by draft position, fresh and a step old.

The event judged at position k is "the first k drafts are accepted", and its forecast the product of c[1..k].
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from simtool.trace.trace import Trace

Reals = NDArray[np.float64]
_BINS = 10
#: Blocks that are judged: more would not move a figure that anyone can read.
_MOST_BLOCKS = 1 << 20
_OUTCOME = ("request_id", "anchor_position", "confidence", "match_run", "source")


@dataclass(frozen=True)
class DraftedBlocks:
    """Drafted blocks in the order of (request, anchor). confidence: [blocks, N]. match_run: [blocks], accepted drafts
    when nothing is pruned. offered: [blocks], positions whose outcome is known (N, or the pruned prefix).
    request: [blocks], a number per request. left_out: how many more blocks there are.
    """

    confidence: NDArray[np.floating[Any]]
    match_run: NDArray[np.int64]
    offered: NDArray[np.int64]
    request: NDArray[np.int64]
    left_out: int = 0

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


@dataclass(frozen=True)
class PositionQuality:
    """One draft position: blocks judged, how many accepted, mean forecast; AUC (None when only one outcome was
    seen) of this block's forecast and of the forecast of the request's block before it; expected calibration error.
    """

    position: int
    blocks: int
    accepted: int
    mean_forecast: float
    auc: float | None
    lagged_auc: float | None
    calibration_error: float


@dataclass(frozen=True)
class ReliabilityBin:
    """One bin of forecasts over all positions: how many, their mean, and how many came true."""

    count: int
    mean_forecast: float
    accepted: int


def blocks_of(trace: Trace) -> DraftedBlocks | None:
    """Return the blocks that a run visited, of its first requests where there are millions; None without confidence.

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
    total = 0
    for part in parts:
        if total < _MOST_BLOCKS and len(part):
            kept.append(part)
        total += len(part)
    if not kept:
        return None
    known = pl.concat(kept)
    confidence = known["confidence"].explode().to_numpy().reshape(len(known), -1)
    return DraftedBlocks(
        confidence,
        known["match"].cast(pl.Int64).to_numpy(),
        known["offered"].to_numpy(),
        known["request_id"].rle_id().cast(pl.Int64).to_numpy(),
        total - len(known),
    )


def quality_by_position(blocks: DraftedBlocks) -> list[PositionQuality]:
    """Judge every position on the blocks that offered it."""
    follows = np.zeros(len(blocks.request), bool)
    follows[1:] = blocks.request[1:] == blocks.request[:-1]
    result = []
    for k, forecast in enumerate(blocks.forecasts(), start=1):
        judged = blocks.offered >= k
        happened, said = blocks.match_run[judged] >= k, forecast[judged]
        old = judged & follows
        result.append(
            PositionQuality(
                position=k,
                blocks=int(judged.sum()),
                accepted=int(happened.sum()),
                mean_forecast=float(said.mean()) if len(said) else 0.0,
                auc=auc(said, happened),
                lagged_auc=auc(np.roll(forecast, 1)[old], blocks.match_run[old] >= k),
                calibration_error=_calibration_error(reliability(said, happened)),
            )
        )
    return result


def reliability(said: Reals, happened: NDArray[np.bool_]) -> list[ReliabilityBin]:
    """Sort forecasts into ten equal bins of [0, 1] and count what came true; empty bins are left out."""
    index = _bin(said)
    bins = []
    for each in np.unique(index):
        inside = index == each
        bins.append(ReliabilityBin(int(inside.sum()), float(said[inside].mean()), int(happened[inside].sum())))
    return bins


def _bin(said: Reals) -> NDArray[np.int64]:
    return np.minimum((said * _BINS).astype(np.int64), _BINS - 1)


def reliability_over_positions(blocks: DraftedBlocks) -> list[ReliabilityBin]:
    """Reliability of every judged (block, position) pair."""
    counts, sums, accepted = np.zeros((3, _BINS))
    for k, forecast in enumerate(blocks.forecasts(), start=1):
        judged = blocks.offered >= k
        said, happened = forecast[judged], blocks.match_run[judged] >= k
        index = _bin(said)
        counts += np.bincount(index, minlength=_BINS)
        sums += np.bincount(index, said, _BINS)
        accepted += np.bincount(index, happened, _BINS)
    told = zip(counts.tolist(), sums.tolist(), accepted.tolist(), strict=True)
    return [ReliabilityBin(int(count), total / count, int(came_true)) for count, total, came_true in told if count]


def autocorrelation(blocks: DraftedBlocks) -> float | None:
    """Correlation of a block's expected accepted drafts with that of the request's block before it; None: undefined."""
    expected = np.zeros(len(blocks.request))
    for forecast in blocks.forecasts():
        expected += forecast
    follows = blocks.request[1:] == blocks.request[:-1]
    before, after = expected[:-1][follows], expected[1:][follows]
    if len(before) < 3 or not before.std() or not after.std():
        return None
    return float(np.corrcoef(before, after)[0, 1])


def auc(said: Reals, happened: NDArray[np.bool_]) -> float | None:
    """Probability that a block where it happened had the higher forecast (ties count half); None: one class only."""
    positives = int(happened.sum())
    negatives = len(happened) - positives
    if not positives or not negatives:
        return None
    higher, of_those = np.unique(said[happened], return_counts=True)
    lower, of_these = np.unique(said[~happened], return_counts=True)
    below = np.concatenate(([0], np.cumsum(of_these)))
    won, not_lost = (below[np.searchsorted(lower, higher, side)] for side in ("left", "right"))
    return float(int((of_those * (won + not_lost)).sum()) / 2 / (positives * negatives))


def _calibration_error(bins: list[ReliabilityBin]) -> float:
    total = sum(each.count for each in bins)
    return sum(abs(each.accepted - each.count * each.mean_forecast) for each in bins) / total if total else 0.0

"""How good the confidence is, by draft position, fresh and a step old.

The event judged at position k is "the first k drafts are accepted", and its forecast the product of c[1..k].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from simtool.trace.trace import Trace

Reals = NDArray[np.float64]
_BINS = 10


@dataclass(frozen=True)
class DraftedBlocks:
    """Drafted blocks in the order of (request, anchor). confidence: [blocks, N]. match_run: [blocks], accepted drafts
    when nothing is pruned. offered: [blocks], positions whose outcome is known (N, or the pruned prefix).
    request: [blocks], a number per request.
    """

    confidence: Reals
    match_run: NDArray[np.int64]
    offered: NDArray[np.int64]
    request: NDArray[np.int64]

    @property
    def positions(self) -> int:
        """N."""
        return int(self.confidence.shape[1])

    @property
    def forecast(self) -> Reals:
        """Probability that the first k drafts are accepted: [blocks, N]."""
        return np.asarray(np.cumprod(np.clip(self.confidence, 0, 1), axis=1), np.float64)


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
    """Return the blocks that a run visited; None when it holds no confidence.

    Outcomes are whole (match runs); without them rows serve, whose outcome is known up to the prefix only.
    """
    outcomes = trace.table("outcomes").filter(
        (pl.col("source") == "visited") & pl.col("match_run").is_not_null() & pl.col("confidence").is_not_null()
    )
    length = pl.col("confidence").list.len().cast(pl.Int64).alias("offered")
    known = outcomes.select("request_id", "anchor_position", "confidence", length, match="match_run")
    if known.is_empty():
        rows = trace.table("rows").filter(pl.col("confidence").is_not_null())
        known = rows.select(
            "request_id", "anchor_position", "confidence", offered=pl.col("prefix_len").cast(pl.Int64), match="accepted"
        )
    if known.is_empty():
        return None
    known = known.sort("request_id", "anchor_position")
    return DraftedBlocks(
        np.array(known["confidence"].to_list(), np.float64),
        known["match"].cast(pl.Int64).to_numpy(),
        known["offered"].to_numpy(),
        known["request_id"].rle_id().cast(pl.Int64).to_numpy(),
    )


def quality_by_position(blocks: DraftedBlocks) -> list[PositionQuality]:
    """Judge every position on the blocks that offered it."""
    forecast = blocks.forecast
    follows = np.zeros(len(forecast), bool)
    follows[1:] = blocks.request[1:] == blocks.request[:-1]
    lagged = np.roll(forecast, 1, axis=0)
    result = []
    for k in range(1, blocks.positions + 1):
        judged = blocks.offered >= k
        happened, said = blocks.match_run[judged] >= k, forecast[judged, k - 1]
        old = judged & follows
        result.append(
            PositionQuality(
                position=k,
                blocks=int(judged.sum()),
                accepted=int(happened.sum()),
                mean_forecast=float(said.mean()) if len(said) else 0.0,
                auc=auc(said, happened),
                lagged_auc=auc(lagged[old, k - 1], blocks.match_run[old] >= k),
                calibration_error=_calibration_error(reliability(said, happened)),
            )
        )
    return result


def reliability(said: Reals, happened: NDArray[np.bool_]) -> list[ReliabilityBin]:
    """Sort forecasts into ten equal bins of [0, 1] and count what came true; empty bins are left out."""
    index = np.minimum((said * _BINS).astype(int), _BINS - 1)
    bins = []
    for each in np.unique(index):
        inside = index == each
        bins.append(ReliabilityBin(int(inside.sum()), float(said[inside].mean()), int(happened[inside].sum())))
    return bins


def reliability_over_positions(blocks: DraftedBlocks) -> list[ReliabilityBin]:
    """Reliability of every judged (block, position) pair."""
    positions = np.arange(1, blocks.positions + 1)
    judged = blocks.offered[:, None] >= positions
    forecast = blocks.forecast
    return reliability(forecast[judged], (blocks.match_run[:, None] >= positions)[judged])


def autocorrelation(blocks: DraftedBlocks) -> float | None:
    """Correlation of a block's expected accepted drafts with that of the request's block before it; None: undefined."""
    expected = blocks.forecast.sum(axis=1)
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
    ranks = stats.rankdata(said)
    return float((ranks[happened].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def _calibration_error(bins: list[ReliabilityBin]) -> float:
    total = sum(each.count for each in bins)
    return sum(abs(each.accepted - each.count * each.mean_forecast) for each in bins) / total if total else 0.0

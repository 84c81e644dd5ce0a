"""How good the confidence is, by draft position, fresh and a step old.

The event judged at position k is "the first k drafts are accepted", and its forecast the product of c[1..k].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simtool.calibrate.drafted import DraftedBlocks

Reals = NDArray[np.float64]
_BINS = 10


@dataclass(frozen=True)
class PositionQuality:
    """One draft position: blocks judged, how many accepted, mean forecast; AUC (None when only one outcome was
    seen) of this block's forecast and of the forecast of the request's block before it; expected calibration error (ten
    equal bins); Brier score, the mean square of forecast less outcome (0 is perfect, a constant 0.5 has 0.25).
    """

    position: int
    blocks: int
    accepted: int
    mean_forecast: float
    auc: float | None
    lagged_auc: float | None
    calibration_error: float
    brier: float


@dataclass(frozen=True)
class ReliabilityBin:
    """One bin of forecasts over all positions: how many, their mean, and how many came true."""

    count: int
    mean_forecast: float
    accepted: int


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
                brier=float(np.square(said - happened).mean()) if len(said) else 0.0,
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

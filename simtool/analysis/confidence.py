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
        judged, happened = blocks.offered >= k, blocks.match_run >= k
        old = judged & follows
        said, came_true = forecast[judged], happened[judged]
        result.append(
            PositionQuality(
                position=k,
                blocks=len(said),
                accepted=int(came_true.sum()),
                mean_forecast=float(said.mean()) if len(said) else 0.0,
                auc=auc(said, came_true),
                lagged_auc=auc(forecast[:-1][old[1:]], happened[old]),
                calibration_error=_calibration_error(reliability(said, came_true)),
                brier=float(np.square(said - came_true).mean()) if len(said) else 0.0,
            )
        )
    return result


def reliability(said: Reals, happened: NDArray[np.bool_]) -> list[ReliabilityBin]:
    """Sort forecasts into ten equal bins of [0, 1] and count what came true; empty bins are left out."""
    return _told(_binned(said, happened))


def _binned(said: Reals, happened: NDArray[np.bool_]) -> Reals:
    """How many forecasts each bin has, their sum, and how many came true: [3, bins]."""
    index = np.minimum((said * _BINS).astype(np.int64), _BINS - 1)
    return np.stack([np.bincount(index, weights, _BINS) for weights in (None, said, happened)])


def _told(binned: Reals) -> list[ReliabilityBin]:
    return [ReliabilityBin(int(count), total / count, int(true)) for count, total, true in binned.T.tolist() if count]


def reliability_over_positions(blocks: DraftedBlocks) -> list[ReliabilityBin]:
    """Reliability of every judged (block, position) pair."""
    binned = np.zeros((3, _BINS))
    for k, forecast in enumerate(blocks.forecasts(), start=1):
        judged = blocks.offered >= k
        binned += _binned(forecast[judged], blocks.match_run[judged] >= k)
    return _told(binned)


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
    """Probability that a block where it happened had the higher forecast (ties count half); None: one class only.

    Forecasts that differ in their last bit alone are ties: what happened stands there, so that numbers are sorted.
    """
    positives = int(happened.sum())
    negatives = len(happened) - positives
    if not positives or not negatives:
        return None
    ordered = np.sort((said + 0.0).view(np.int64) & -2 | happened)  # of numbers from 0 on the bits rise as they do
    came_true, alike = ordered & 1, ordered >> 1
    first = np.flatnonzero(np.append(True, alike[1:] != alike[:-1]))
    true = np.add.reduceat(came_true, first)
    false = np.diff(np.append(first, len(ordered))) - true
    below = np.cumsum(false) - false
    return float(int((true * (2 * below + false)).sum()) / 2 / (positives * negatives))


def _calibration_error(bins: list[ReliabilityBin]) -> float:
    total = sum(each.count for each in bins)
    return sum(abs(each.accepted - each.count * each.mean_forecast) for each in bins) / total if total else 0.0

"""Sequential temperature scaling: one temperature a draft position, fitted from left to right.

DSpark (arXiv 2607.05147, 3.2.1) fits position k so that the product of the calibrated confidences up to k is right
about how often the first k drafts are accepted: least expected calibration error (Naeini et al. 2015; Guo et al. 2017),
the mean distance of forecast and frequency over equal bins, weighted by their blocks. The grid and the 15 bins are
those of SGLang's fitter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simtool.calibrate.drafted import DraftedBlocks
from simtool.errors import TraceError
from simtool.step.temperatures import calibrated

Floats = NDArray[np.float64]
GRID = np.logspace(-1, 1, 41)
BINS = 15
_LEAST_BLOCKS = 50


@dataclass(frozen=True)
class ConfidenceFit:
    """temperatures: by position. error_before, error_after: calibration error at each, on the blocks fitted on.

    held_out_before, held_out_after: mean over positions, on requests that a fit to the others did not see.
    """

    temperatures: tuple[float, ...]
    error_before: tuple[float, ...]
    error_after: tuple[float, ...]
    held_out_before: float
    held_out_after: float


def fit_temperatures(blocks: DraftedBlocks) -> ConfidenceFit:
    """Fit every position; raises TraceError where some position was judged in too few blocks."""
    _check(blocks)
    half = blocks.request % 2 == 0
    seen, unseen = _part(blocks, half), _part(blocks, ~half)
    found = _fit(blocks)
    crossed = _fit(seen) if len(np.unique(blocks.request)) > 1 else found
    judged = unseen if len(unseen.match_run) else blocks
    return ConfidenceFit(
        temperatures=found,
        error_before=_errors(blocks, ()),
        error_after=_errors(blocks, found),
        held_out_before=float(np.mean(_errors(judged, ()))),
        held_out_after=float(np.mean(_errors(judged, crossed))),
    )


def calibration_error(said: Floats, happened: NDArray[np.bool_], bins: int = BINS) -> float:
    """Return the expected calibration error of forecasts [n] of what happened [n], over equal bins of 0 to 1."""
    if not len(said):
        return 0.0
    index = np.minimum((said * bins).astype(int), bins - 1)
    off = np.bincount(index, weights=said, minlength=bins) - np.bincount(index, weights=happened, minlength=bins)
    return float(np.abs(off).sum() / len(said))


def _fit(blocks: DraftedBlocks) -> tuple[float, ...]:
    found: list[float] = []
    reached = np.ones(len(blocks.match_run))
    for k in range(blocks.positions):
        here = blocks.confidence[:, k : k + 1]
        judged, happened = blocks.offered > k, blocks.match_run > k
        errors = [
            calibration_error((reached * calibrated(here, [t])[:, 0])[judged], happened[judged]) for t in GRID.tolist()
        ]
        nearest_one = np.abs(np.log(GRID))  # of equally good ones the one that changes least
        best = min(range(len(GRID)), key=lambda i: (errors[i], nearest_one[i]))
        found.append(float(GRID[best]))
        reached = reached * calibrated(here, [found[-1]])[:, 0]
    return tuple(found)


def _errors(blocks: DraftedBlocks, temperatures: tuple[float, ...]) -> tuple[float, ...]:
    said = np.cumprod(np.clip(calibrated(blocks.confidence, temperatures), 0, 1), axis=1)
    return tuple(
        calibration_error(said[blocks.offered > k, k], (blocks.match_run > k)[blocks.offered > k])
        for k in range(blocks.positions)
    )


def _part(blocks: DraftedBlocks, kept: NDArray[np.bool_]) -> DraftedBlocks:
    return DraftedBlocks(blocks.confidence[kept], blocks.match_run[kept], blocks.offered[kept], blocks.request[kept])


def _check(blocks: DraftedBlocks) -> None:
    for k in range(blocks.positions):
        judged = int((blocks.offered > k).sum())
        if judged < _LEAST_BLOCKS:
            raise TraceError(
                f"draft {k + 1} was judged in {judged} blocks, and a temperature takes {_LEAST_BLOCKS}; record more, "
                "or with --outcomes full, which judges what a prune left out"
            )

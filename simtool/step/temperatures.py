"""Temperatures of a drafter's confidence, one a position: what makes it mean what it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simtool.errors import UsageError
from simtool.files.reading import quoted

Floats = NDArray[np.float64]
_LEAST, _MOST = 1e-3, 1e3


def check_temperatures(temperatures: Sequence[object]) -> None:
    """Raise UsageError for what cannot be a list of temperatures."""
    for each in temperatures:
        if not isinstance(each, int | float) or isinstance(each, bool) or not _LEAST <= each <= _MOST:
            raise UsageError(f"temperature is {quoted(each)}; expected a number from {_LEAST:g} to {_MOST:g}")


def calibrated(confidence: NDArray[np.floating[Any]], temperatures: Sequence[float]) -> Floats:
    """Return sigmoid(logit(confidence) / temperature) by position: [rows, N] from [rows, N]; no temperatures: as it is.

    A temperature above 1 draws a confidence towards a half, and order within a position stays. Raises UsageError for
    temperatures of another block length.
    """
    if not len(temperatures):
        return confidence.astype(np.float64)
    known = np.clip(confidence.astype(np.float64), 0.0, 1.0)
    if known.shape[1] != len(temperatures):
        raise UsageError(
            f"{len(temperatures)} temperatures, and a block has {known.shape[1]} drafts; calibrate --confidence on a "
            "trace of that block length"
        )
    with np.errstate(divide="ignore"):
        logits = np.log(known) - np.log1p(-known)  # of 0 and 1 infinite, and of no temperature another
        scaled: Floats = 1.0 / (1.0 + np.exp(-logits / np.array(temperatures, np.float64)))
    return scaled

"""How many repetitions it takes for an interval to leave out zero, at a mean and a spread that were seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from simtool.stats.interval import LEVEL

#: More than this many repetitions nobody plans.
MAX_REPETITIONS = 1000

Counts = NDArray[np.int64]


def repetitions_needed(effect: float, deviation: float) -> int | None:
    """Return the fewest repetitions at which the t interval of this mean and spread would leave out zero.

    effect, deviation: of one repetition's (paired) difference, in one unit. None: more than MAX_REPETITIONS.
    """
    counts = np.arange(2, MAX_REPETITIONS + 1)
    quantiles = special.stdtrit(counts - 1, (1 + LEVEL) / 2)
    return fewest(counts, quantiles * deviation / np.sqrt(counts) < abs(effect))


def fewest(counts: Counts, enough: NDArray[np.bool_]) -> int | None:
    """Return the first count that is enough; None where none is."""
    return int(counts[enough.argmax()]) if enough.any() else None

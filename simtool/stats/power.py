"""How many repetitions it takes to tell an effect of some size, at a spread that was seen."""

from __future__ import annotations

import numpy as np
from scipy import stats

from simtool.stats.interval import LEVEL

#: More than this many repetitions nobody plans.
MAX_REPETITIONS = 1000


def repetitions_needed(effect: float, deviation: float) -> int | None:
    """Return the fewest repetitions at which the t interval of this mean and spread would leave out zero.

    effect, deviation: of one repetition's (paired) difference, in one unit. None: more than MAX_REPETITIONS.
    """
    counts = np.arange(2, MAX_REPETITIONS + 1)
    half = stats.t.ppf((1 + LEVEL) / 2, counts - 1) * deviation / np.sqrt(counts)
    enough = counts[half < abs(effect)]
    return int(enough[0]) if len(enough) else None

"""How many repetitions it takes to tell an effect of some size with some chance, at a spread that was seen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from simtool.stats.interval import LEVEL
from simtool.stats.repetitions import MAX_REPETITIONS, Counts, fewest

#: The chance with which a plan is to tell its effect.
POWER = 0.8

Reals = NDArray[np.float64]


def paired_repetitions(effect: float, deviation: float, power: float = POWER) -> int | None:
    """Return the fewest pairs of repetitions that tell an effect with this chance. None: more than MAX_REPETITIONS.

    deviation: of a pair's difference, above 0. The t statistic of n pairs is noncentral t.
    """

    def chance(counts: Counts) -> Reals:
        return _chance((counts - 1).astype(np.float64), abs(effect) * np.sqrt(counts) / deviation)

    return _fewest(chance, power)


def unpaired_repetitions(effect: float, deviations: tuple[float, float], power: float = POWER) -> int | None:
    """Return the fewest repetitions of each arm that tell an effect with this chance. None: more than MAX_REPETITIONS.

    deviations: of one repetition of each arm, not both 0. Welch's degrees of freedom.
    """
    squares = [deviation**2 for deviation in deviations]
    share = sum(squares) ** 2 / sum(square**2 for square in squares)  # 1 where one arm has all the spread, 2 at equal

    def chance(counts: Counts) -> Reals:
        return _chance(share * (counts - 1).astype(np.float64), abs(effect) * np.sqrt(counts / sum(squares)))

    return _fewest(chance, power)


def _chance(freedom: Reals, noncentrality: Reals) -> Reals:
    """The chance that a t statistic passes the two-sided quantile of LEVEL on the effect's own side."""
    quantile = stats.t.ppf((1 + LEVEL) / 2, freedom)
    # scipy's noncentral t overflows far out, where the normal is as good
    far = noncentrality > 30
    near = stats.nct.sf(quantile, freedom, np.where(far, 0.0, noncentrality))
    return np.asarray(np.where(far, stats.norm.cdf(noncentrality - quantile), near))


def _fewest(chance: Callable[[Counts], Reals], power: float) -> int | None:
    counts = np.arange(2, MAX_REPETITIONS + 1)
    return fewest(counts, chance(counts) >= power)

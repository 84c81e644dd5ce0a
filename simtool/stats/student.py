"""Student's t: the interval of a mean, of one more draw, of a difference between two groups, of a ratio of means.

Values are independent of each other; for the steps of a run, which are not, see `series`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from simtool.stats.interval import LEVEL, Interval

Reals = NDArray[np.float64]


def quantile(freedom: float, level: float = LEVEL) -> float:
    """Return the two-sided quantile of Student's t."""
    return float(special.stdtrit(freedom, (1 + level) / 2))  # as scipy.stats, which takes a second to import


def standard_error(values: Reals) -> float:
    """Return the standard error of the mean of two or more independent values."""
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def mean_interval(values: Sequence[float], *, draws: bool = False) -> Interval:
    """Return the mean with its interval; without ends where there is one value only.

    draws: values are draws of what is not known, such as refitted costs: their spread is the uncertainty itself, so
    the interval is of one draw more, not of their mean, and more of them do not narrow it.
    """
    found = np.asarray(values, np.float64)
    count, mean = len(found), float(found.mean())
    if count < 2:
        return Interval(mean, method="one value, which tells nothing of its spread")
    error = standard_error(found) * (math.sqrt(count + 1) if draws else 1.0)
    method = f"t on the spread of {count} draws" if draws else f"t on {count} values"
    return Interval.around(mean, quantile(count - 1) * error, method)


def known_mean_interval(values: Sequence[float | None], *, draws: bool = False) -> Interval | None:
    """Return the mean with its interval; None when there are fewer than two values or one is not known."""
    known = [value for value in values if value is not None]
    return mean_interval(known, draws=draws) if len(known) == len(values) > 1 else None


def relative_change(
    baseline: Sequence[float | None], other: Sequence[float | None], *, draws: bool = False
) -> Interval | None:
    """Return the mean relative change from baseline to other, paired in order; None where a pair has none.

    The mean is of log ratios, so that the change from B to A undoes the one from A to B.
    """
    pairs = zip(baseline, other, strict=True)
    found = known_mean_interval([_log_ratio(old, new) for old, new in pairs], draws=draws)
    return found.mapped(math.expm1) if found else None


def _log_ratio(old: float | None, new: float | None) -> float | None:
    return math.log(new / old) if old is not None and new is not None and old > 0 and new > 0 else None


def welch_interval(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Return mean(second) - mean(first) of two or more values each, which need not have one spread (Welch 1947)."""
    groups = [np.asarray(values, np.float64) for values in (first, second)]
    counts = [len(group) for group in groups]
    squares = [standard_error(group) ** 2 for group in groups]
    spread = sum(square**2 / (count - 1) for square, count in zip(squares, counts, strict=True))
    freedom = sum(squares) ** 2 / spread if spread else min(counts) - 1
    mean = float(groups[1].mean() - groups[0].mean())
    half = quantile(freedom) * math.sqrt(sum(squares))
    return Interval.around(mean, half, f"Welch's t on {counts[0]} and {counts[1]} values")


def ratio_interval(numerators: ArrayLike, denominators: ArrayLike) -> Interval:
    """Return sum(numerators) / sum(denominators) over independent units, such as requests or pairs, two or more.

    The ratio is linearised about itself (Cochran 1977, section 6): the interval is the t interval of the units'
    residuals.
    """
    above, below = (np.asarray(values, np.float64) for values in (numerators, denominators))
    ratio = float(above.sum() / below.sum())
    count = len(above)
    if count < 2:
        return Interval(ratio, method="one unit, which tells nothing of its spread")
    half = quantile(count - 1) * standard_error((above - ratio * below) / below.mean())
    return Interval.around(ratio, half, f"t on {count} units")

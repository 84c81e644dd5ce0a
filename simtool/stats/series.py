"""The interval of what a run's steps say, though they resemble their neighbours; or that they are too few to say it.

A figure of a run (its tokens per second, its mean step) is a function of means over steps. Its error is the mean of
the steps' influences on it, and that mean's own error follows from their long-run variance (`autocorrelation`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simtool.stats.autocorrelation import LongRun, long_run
from simtool.stats.interval import Interval
from simtool.stats.student import quantile

#: Below any, no interval is given: its coverage would fall short of its level (docs/statistics.md).
MIN_STEPS = 50
MIN_EFFECTIVE = 15
MIN_CYCLES = 3

Reals = NDArray[np.float64]


def mean_influence(values: ArrayLike) -> Reals:
    """Return each step's influence on the log of the mean of positive values: [steps]."""
    found = np.asarray(values, np.float64)
    return np.asarray(found / found.mean() - 1)


def ratio_influence(numerators: ArrayLike, denominators: ArrayLike) -> Reals:
    """Return each step's influence on the log of sum(numerators) / sum(denominators): [steps]."""
    return mean_influence(numerators) - mean_influence(denominators)


def log_interval(estimate: float, *influences: Reals, cycles: float | None = None) -> Interval:
    """Return a log estimate with the interval that the influences on it give it.

    influences: one series, or one from each of two independent runs, whose difference (or sum) the estimate is.
    Without ends, and told why, where a series has fewer than MIN_STEPS steps or is worth fewer than MIN_EFFECTIVE
    independent ones. cycles: see `long_run`; without ends too where there are fewer than MIN_CYCLES.
    """
    short = min(map(len, influences))
    if short < MIN_STEPS:
        return Interval(estimate, method=f"{short} steps, and fewer than {MIN_STEPS} tell too little of their spread")
    if cycles is not None and cycles < MIN_CYCLES:
        why = f"its prompts filled the batch {cycles:.1f} times, and fewer than {MIN_CYCLES} tell too little of others"
        return Interval(estimate, method=why)
    found = [long_run(each, cycles) for each in influences]
    worth = min(min(each.effective, len(series)) for each, series in zip(found, influences, strict=True))
    if worth < MIN_EFFECTIVE:
        return Interval(
            estimate,
            method=f"{short} steps resemble their neighbours so much that they are worth {worth:.0f} independent ones, "
            f"and fewer than {MIN_EFFECTIVE} tell too little of their spread",
        )
    errors = [each.variance / len(series) for each, series in zip(found, influences, strict=True)]
    half = quantile(_freedom(found, errors)) * math.sqrt(sum(errors))
    counts = " and ".join(str(len(series)) for series in influences)
    return Interval.around(estimate, half, f"t on {counts} steps, worth {worth:.0f} independent ones")


def standard_error(influence: Reals, cycles: float | None = None) -> float | None:
    """Return the standard error of a log estimate of one series; None where the series is too short to tell."""
    found = log_interval(0.0, influence, cycles=cycles)
    return None if found.bounds is None else math.sqrt(long_run(influence, cycles).variance / len(influence))


def _freedom(found: list[LongRun], errors: list[float]) -> float:
    """Degrees of freedom of a sum of independent errors (Satterthwaite 1946)."""
    spread = sum(error**2 / each.freedom for each, error in zip(found, errors, strict=True))
    return sum(errors) ** 2 / spread if spread else float(min(each.freedom for each in found))

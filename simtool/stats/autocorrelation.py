"""How much consecutive steps resemble each other, and how many independent ones they are worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]

_MAX_CORRELATION = 0.98  # beyond, a finite series cannot tell an autocorrelation from a trend
_FREQUENCIES = 0.3  # of n^(2/3), see `long_run`
_MIN_FREQUENCIES = 3


@dataclass(frozen=True)
class LongRun:
    """The long-run variance of a series: n times the variance of its mean.

    freedom: degrees of freedom of Student's t for that mean. effective: independent values that the series is worth.
    """

    variance: float
    freedom: int
    effective: float


def lag_one_correlation(values: Reals) -> float:
    """Return the correlation of a value with the next, from 0 to 0.98, without the bias of a short series.

    The plain estimate falls short by about (1 + 4 r) / n (Kendall 1954; Marriott & Pope 1954).
    """
    centred = values - values.mean()
    power = float(centred @ centred)
    if not power:
        return 0.0
    found = float(centred[1:] @ centred[:-1]) / power
    return min(max(found + (1 + 4 * found) / len(values), 0.0), _MAX_CORRELATION)


def _cosines(values: Reals, count: int) -> Reals:
    """Return the sums of values times cos(pi k (t + 1/2) / n), for k from 1 to count: by FFT, which takes n log n.

    count: may be larger than n, whose cosines come again.
    """
    size = 2 * len(values)
    k = np.arange(1, count + 1)
    folded = np.fft.fft(values, size)[k % size]
    sums: Reals = (folded * np.exp(-0.5j * np.pi * k / len(values))).real
    return sums


def long_run(values: Reals, cycles: float | None = None) -> LongRun:
    """Return the long-run variance of a stationary series, of four values or more.

    What the correlation of neighbours explains is taken out first and put back after (prewhitening: Andrews & Monahan
    1992). Of the rest the lowest B frequencies tell: the mean of B squared cosine projections, which has the spread of
    a chi-squared with B degrees of freedom, so that the mean of the series over its error is Student's t with B
    (Lazarus, Lewis, Stock & Watson 2018). B grows as 0.3 n^(2/3).

    cycles: how often what is sampled was drawn anew, such as a batch's prompts. What is quicker than that says little
    of other draws, so B is at most half of it.
    """
    centred = values - values.mean()
    scale = float(centred @ centred) / len(values)
    if scale <= (1e-9 * float(np.abs(values).max())) ** 2:  # all alike but for the rounding of the sums
        return LongRun(0.0, len(values) - 1, float(len(values)))
    correlation = lag_one_correlation(values)
    rest = centred[1:] - correlation * centred[:-1]
    rest = rest - rest.mean()
    count = len(rest)
    most = _FREQUENCIES * count ** (2 / 3)
    freedom = max(int(most if cycles is None else min(most, cycles / 2)), _MIN_FREQUENCIES)
    projections = np.sqrt(2 / count) * _cosines(rest, freedom)
    variance = float(np.mean(projections**2)) / (1 - correlation) ** 2
    return LongRun(variance, freedom, len(values) * scale / variance if variance else float(len(values)))

"""What repetitions under different seeds say together: a mean with its 95 % interval (Student's t)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from simtool.analysis.comparison.compare import CONFIDENCE


@dataclass(frozen=True)
class Interval:
    """mean +- half, in the unit of the values."""

    mean: float
    half: float


def interval(values: Sequence[float | None]) -> Interval | None:
    """Return the mean of repetitions with its interval; None when there are fewer than two or one has no value."""
    known = [value for value in values if value is not None]
    if len(known) < max(2, len(values)):
        return None
    half = stats.t.ppf((1 + CONFIDENCE) / 2, len(known) - 1) * np.std(known, ddof=1) / len(known) ** 0.5
    return Interval(float(np.mean(known)), float(half))


def change(baseline: Sequence[float | None], other: Sequence[float | None]) -> Interval | None:
    """Return the relative change from baseline to other, paired by seed; None where a pair has none."""
    pairs = zip(baseline, other, strict=True)
    return interval([None if new is None or not old else new / old - 1 for old, new in pairs])

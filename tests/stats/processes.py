"""Series whose truth is known: autoregressions, and recorded steps drawn again in blocks."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

Reals = NDArray[np.float64]

#: The live traces that ship.
LIVE = sorted(path.parent for path in (Path(__file__).parents[2] / "traces").glob("*/manifest.json"))


def ar1(rng: np.random.Generator, correlation: float, shape: tuple[int, int]) -> Reals:
    """Return stationary autoregressions of order 1, mean 0 and variance 1: [series, steps]."""
    noise = rng.standard_normal(shape) * math.sqrt(1 - correlation**2)
    noise[:, 0] /= math.sqrt(1 - correlation**2)
    return np.asarray(lfilter([1.0], [1.0, -correlation], noise, axis=1), np.float64)


def resampled(rng: np.random.Generator, values: Reals, shape: tuple[int, int], block: int = 25) -> Reals:
    """Return series of blocks of the values, of random length around `block` (Politis & Romano 1994), of their mean."""
    places = np.empty(shape, np.int64)
    places[:, 0] = rng.integers(0, len(values), shape[0])
    for step in range(1, shape[1]):
        anew = rng.random(shape[0]) < 1 / block
        places[:, step] = np.where(
            anew, rng.integers(0, len(values), shape[0]), (places[:, step - 1] + 1) % len(values)
        )
    return values[places]

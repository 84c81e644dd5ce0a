"""How uncertain a fit is: the recording resampled in blocks of consecutive steps, for the costs to be fitted again.

A circular block bootstrap (Politis and Romano, 1992) over the steps of all traces in time order, because a slow spell
of the machine lasts for many steps and slows every op. One resample serves every cost, so that costs which go wrong
together do so in a refit as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Refits that tell how uncertain a fit is, where that is wanted: enough for the spread of a figure.
REFITS = 20
_BLOCK = 16  # consecutive steps of a run, as in the held-out error
_FEWEST_BLOCKS = 4


@dataclass(frozen=True)
class Resample:
    """How often each step was drawn. starts_ns: of the steps, ascending; counts: [steps]."""

    starts_ns: NDArray[np.int64]
    counts: NDArray[np.int32]

    def times_drawn(self, starts_ns: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return how often the steps that started then were drawn, one each."""
        return self.counts[np.searchsorted(self.starts_ns, starts_ns)]


def resamples(runs_ns: Sequence[NDArray[np.int64]], count: int, seed: int = 0) -> list[Resample]:
    """Draw `count` resamples of recorded runs; runs_ns: when each run's steps started, [steps] each.

    Runs that took turns on one clock are resampled together: a block is 16 steps of each. The first ones are the
    same, however many are drawn.
    """
    starts_ns = np.unique(np.concatenate(runs_ns))
    steps = len(starts_ns)
    length = max(1, min(_BLOCK * _at_once(runs_ns), steps // _FEWEST_BLOCKS))
    rng = np.random.default_rng(seed)
    firsts = rng.integers(0, steps, size=(count, -(-steps // length)))
    drawn = ((first[:, None] + np.arange(length)).ravel()[:steps] % steps for first in firsts)
    return [Resample(starts_ns, np.bincount(each, minlength=steps).astype(np.int32)) for each in drawn]


def _at_once(runs_ns: Sequence[NDArray[np.int64]]) -> int:
    """How many runs were under way at a time: 1 for runs one after another, all of them for runs in turns."""
    first, last = ([int(of(run)) for run in runs_ns] for of in (np.min, np.max))
    spans = sum(last) - sum(first)
    whole = max(last) - min(first)
    return max(1, round(spans / whole)) if whole else 1

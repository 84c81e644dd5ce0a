"""Whether a recording tells how a cost depends on what ran just before, and by how much where works share it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from simtool.calibrate.observed import Observed
from simtool.calibrate.regression import fit_line

#: Doublings (standard deviation) by which a history must vary beyond what sizes explain. Idle time grows with the batch
#: too: with less, its slope would be the batch's, and be wrong at other batches.
_APART = 0.5
_ENOUGH = 30
#: Observations that a shared slope is fitted to: every second, third, ... of each group where there are more. They
#: stand beside a column for each group, and more of them would not move the slope by what anyone can read.
MOST_SHARED = 1 << 18


def told_apart(observed: Observed, features: Sequence[str], past: str) -> bool:
    """Return whether the feature `past` varies enough beside `features` for a slope of its own."""
    if len(observed) < _ENOUGH:
        return False
    idle = observed.column(past)
    sizes = np.column_stack([np.ones(len(observed)), observed.columns(features)])
    explained = sizes @ np.linalg.lstsq(sizes, idle, rcond=None)[0]
    return float((idle - explained).std()) >= _APART


def shared_slope(groups: Iterable[Observed], past: str) -> float:
    """Return the ns per unit of `past` that groups share, each with a constant of its own; 0 where it hardly varies."""
    kept = [group for group in groups if len(group)]
    every = -(-sum(map(len, kept)) // MOST_SHARED)
    if not kept:
        return 0.0
    values = np.concatenate([group.value_ns[::every] for group in kept]).astype(np.float64)
    idle = np.concatenate([group.past[past][::every] for group in kept])
    counts = [len(range(0, len(group), every)) for group in kept]
    own = np.repeat(np.eye(len(kept)), counts, axis=0)  # [n, groups]: 1 in the group's column
    if len(values) < _ENOUGH or float((idle - own @ (idle @ own / own.sum(axis=0))).std()) < _APART:
        return 0.0
    return float(fit_line(np.column_stack([idle, own]), values)[1])

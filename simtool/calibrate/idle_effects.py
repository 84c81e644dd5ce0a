"""Whether a recording tells how a cost depends on what ran just before, and by how much where works share it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from simtool.calibrate.regression import Observation, fit_line

#: Doublings (standard deviation) by which a history must vary beyond what sizes explain. Idle time grows with the batch
#: too: with less, its slope would be the batch's, and be wrong at other batches.
_APART = 0.5
_ENOUGH = 30


def told_apart(observations: Sequence[Observation], features: Sequence[str], past: str) -> bool:
    """Return whether the feature `past` varies enough beside `features` for a slope of its own."""
    if len(observations) < _ENOUGH:
        return False
    idle = np.array([o.features[past] for o in observations])
    sizes = np.array([[1.0, *(o.features[name] for name in features)] for o in observations])
    explained = sizes @ np.linalg.lstsq(sizes, idle, rcond=None)[0]
    return float((idle - explained).std()) >= _APART


def shared_slope(groups: Iterable[Sequence[Observation]], past: str) -> float:
    """Return the ns per unit of `past` that groups share, each with a constant of its own; 0 where it hardly varies."""
    kept = [group for group in groups if group]
    values = np.array([o.value_ns for group in kept for o in group], dtype=np.float64)
    idle = np.array([o.features[past] for group in kept for o in group])
    own = np.repeat(np.eye(len(kept)), [len(group) for group in kept], axis=0)  # [n, groups]: 1 in the group's column
    if len(values) < _ENOUGH or float((idle - own @ (idle @ own / own.sum(axis=0))).std()) < _APART:
        return 0.0
    return float(fit_line(np.column_stack([idle, own]), values)[1])


def without(observation: Observation, past: str, slope: float) -> Observation:
    """Return the observation less what its past cost it."""
    return replace(observation, value_ns=round(observation.value_ns - slope * observation.features[past]))

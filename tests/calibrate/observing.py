"""Observations by hand, for the fits."""

import numpy as np

from simtool.calibrate.observed import Observed, Sizes
from simtool.step.idle_effects import IDLE_FEATURES


def observed(values, starts_ns=None, **features):
    """Each value was seen in a step of its own; features: a list each."""
    columns = {name: np.array(column, np.float64) for name, column in features.items()}
    past = {name: columns.pop(name) for name in IDLE_FEATURES if name in columns}
    starts_ns = np.zeros(len(values), np.int64) if starts_ns is None else np.array(starts_ns, np.int64)
    sizes = Sizes(starts_ns, columns)
    return Observed(np.array(values), np.arange(len(values)), sizes, past)

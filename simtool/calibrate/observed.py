"""Measured durations as arrays, beside the sizes of the steps in which they were measured."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]


@dataclass(frozen=True)
class Sizes:
    """Steps in which something was measured: when each started, and what costs may grow with; [steps] each.

    by_name: features; not a number where the kind of step has no such size.
    """

    start_ns: Ints
    by_name: Mapping[str, Reals]


@dataclass(frozen=True)
class Observed:
    """Durations (or offsets) in time order: value_ns, [n]. step: [n], the place in `sizes` of the step of each.

    past: what ran just before, by the feature's name, [n].
    """

    value_ns: NDArray[Any]
    step: NDArray[Any]
    sizes: Sizes
    past: Mapping[str, Reals] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.value_ns)

    @property
    def start_ns(self) -> Ints:
        """When the step of each started: [n]."""
        starts: Ints = self.sizes.start_ns[self.step]
        return starts

    def column(self, feature: str) -> Reals:
        """Return a feature of each: [n]."""
        return self.past[feature] if feature in self.past else self.sizes.by_name[feature][self.step]

    def columns(self, features: Sequence[str]) -> Reals:
        """Return features of each: [n, features]."""
        if not features:
            return np.empty((len(self), 0))
        return np.column_stack([self.column(name) for name in features])

    def without(self, past: str, slope_ns: float) -> Observed:
        """Return the same less what the past cost each, at so many ns a unit of it, in whole ns."""
        return replace(self, value_ns=np.rint(self.value_ns - slope_ns * self.past[past]))


def joined(parts: Iterable[Observed]) -> Observed | None:
    """Return all as one, without their past; None for none."""
    found = list(parts)
    if not found:
        return None
    values, steps = (np.concatenate([getattr(part, name) for part in found]) for name in ("value_ns", "step"))
    return Observed(values, steps, found[0].sizes)


class Growing:
    """Durations on their way: value_ns, the step's place, and with `past` what ran before each."""

    __slots__ = ("past", "step", "value_ns")

    def __init__(self) -> None:
        self.value_ns, self.step, self.past = array("q"), array("i"), array("d")

    def add(self, value_ns: int, step: int) -> None:
        """Add one of which no past is told."""
        self.value_ns.append(value_ns)
        self.step.append(step)

    def add_behind(self, value_ns: int, step: int, past: float) -> None:
        """Add one, and the feature of what ran before."""
        self.value_ns.append(value_ns)
        self.step.append(step)
        self.past.append(past)

    def add_all(self, value_ns: Ints, step: NDArray[Any], past: Reals | None = None) -> None:
        """Add some at once."""
        self.value_ns.frombytes(value_ns.astype(np.int64).tobytes())
        self.step.frombytes(step.astype(np.int32).tobytes())
        if past is not None:
            self.past.frombytes(past.tobytes())

    def observed(self, sizes: Sizes, past: str | None = None) -> Observed:
        """Return what there is. past: the feature's name."""
        told = {} if past is None else {past: np.frombuffer(self.past, np.float64)}
        return Observed(np.frombuffer(self.value_ns, np.int64), np.frombuffer(self.step, np.int32), sizes, told)


Growth = defaultdict[tuple[str, ...], Growing]

"""All prices of one kind of step as arrays, so that steps are priced in a few vector operations.

The arrays add a cost's terms one after the other, in the cost's own order, so that the sum is the same to the last bit
as `Cost.predict`; the term that grows with what ran just before comes last.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simtool.errors import ProfileError
from simtool.profile.cost import SLACK, Cost
from simtool.replay.prices.step_program import Price, StepProgram
from simtool.step.beyond import Beyond
from simtool.step.cost_features import DECODE_FEATURES, PREFILL_FEATURES
from simtool.step.idle_effects import IDLE_FEATURES


class PriceList:
    """The prices of a program, [prices] each, in ns. features: names of the sizes, [sizes], that they grow with.

    lines: of each price its terms, as a size's place and a slope. slopes: the same as [terms, prices], each with its
    size's place in `sizes`. idle_slope: per doubling of the idle time before it. floor: 0, or minus infinity for a
    distance that may be negative.
    """

    def __init__(self, program: StepProgram, profile: str) -> None:
        self.program = program
        self.features = DECODE_FEATURES if program.kind == "decode" else PREFILL_FEATURES
        self._profile = profile
        costs = [price.cost for price in program.prices]
        self.lines = [self._terms(price) for price in program.prices]
        depth = max(1, *map(len, self.lines))
        self.sizes = np.zeros((depth, len(costs)), np.int64)
        self.slopes = np.zeros((depth, len(costs)))
        for column, found in enumerate(self.lines):
            for row, (size, slope) in enumerate(found):
                self.sizes[row, column], self.slopes[row, column] = size, slope
        self.intercept = np.array([cost.intercept_ns for cost in costs])
        self.idle_slope = np.array([_idle_slope(cost) for cost in costs])
        self.floor = np.array([-np.inf if price.signed else 0.0 for price in program.prices])
        self.residual_count = np.array([len(cost.residuals_ns) for cost in costs])
        self.residual_start = np.cumsum(self.residual_count) - self.residual_count

    @cached_property
    def residuals(self) -> NDArray[np.int64]:
        """Those of all prices, one after another: many, and only noise asks for them."""
        return np.concatenate([price.cost.residual_array for price in self.program.prices])

    def sums(self, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return slope x size summed over the terms that do not depend on the past: [steps, prices].

        sizes: [steps, sizes].
        """
        terms = sizes.take(self.sizes, axis=1)
        terms *= self.slopes
        total: NDArray[np.float64] = np.add.reduce(terms, axis=1)  # term after term, so in the cost's own order
        return total

    def noise(self, luck: NDArray[np.float64], place: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what each step's draw in [0, 1) adds to each price, `place` observations further on: [steps, prices].

        luck, place: [steps].
        """
        there = self.residual_count > 0
        count, start = self.residual_count[there], self.residual_start[there]
        picked = start + ((luck[:, None] * count).astype(np.int64) + place[:, None]) % count
        residuals = np.zeros((len(luck), len(there)), np.int64)
        residuals[:, there] = self.residuals[picked]
        return residuals

    def rounded(self, sums: NDArray[np.float64], noise: NDArray[np.int64] | None) -> list[list[int]]:
        """Return the prices in whole ns, those that grow with the past as after none: [steps][prices]."""
        exact = self.intercept + sums
        if noise is not None:
            exact += noise
        np.maximum(np.rint(exact, out=exact), self.floor, out=exact)
        whole: list[list[int]] = exact.astype(np.int64).tolist()
        return whole

    def outside(self, low: NDArray[np.float64], high: NDArray[np.float64]) -> Iterator[Beyond]:
        """Yield what lies well outside its calibrated range, of sizes that were at least low and at most high."""
        places, least, most = self._limits
        found: list[tuple[int, int, int, float]] = []
        for end, sizes in enumerate((low, high)):
            value = sizes[places]
            there = np.flatnonzero(~((least <= value) & (value <= most))).tolist()
            found.extend((self._ranges[at][0], end, at, float(value[at])) for at in there)
        for price, _, at, size in sorted(found):
            _, feature, lowest, highest = self._ranges[at]
            yield Beyond(self.program.prices[price].name, feature, size, lowest, highest, self.program.kind)

    @cached_property
    def _limits(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Of each range the place of its size, and how small and how large that may be: [ranges] each."""
        places = [self.features.index(feature) for _, feature, _, _ in self._ranges]
        least, most = (np.array([each[end] for each in self._ranges], np.float64) for end in (2, 3))
        return np.array(places, np.int64), least / SLACK, most * SLACK

    @cached_property
    def _ranges(self) -> list[tuple[int, str, float, float]]:
        """Each price's place, with each of its features and that feature's range."""
        return [
            (place, feature, *ends)
            for place, price in enumerate(self.program.prices)
            for feature, ends in price.cost.ranges.items()
        ]

    def _terms(self, price: Price) -> list[tuple[int, float]]:
        found = []
        for name, slope in price.cost.per_feature_ns.items():
            if name in IDLE_FEATURES:
                continue
            if name not in self.features:
                raise ProfileError(
                    f"profile {self._profile}: {price.name} in a {self.program.kind} step grows with {name!r}, which "
                    f"such a step does not have; expected {', '.join(self.features)}"
                )
            found.append((self.features.index(name), slope))
        return found


def _idle_slope(cost: Cost) -> float:
    return sum(slope for name, slope in cost.per_feature_ns.items() if name in IDLE_FEATURES)

"""Costs in whole ns: the profile's expectation, and when asked the noise that its fits left over.

All prices of some steps are reckoned at once. What grows with what ran just before is finished when the work begins.

Noise is a block bootstrap with common random numbers. The draw is keyed by the seed and by the work itself (request
and anchor), not by when or in which placement it runs, so that placements differ in their order and not in what
they drew. One draw picks the same point of the recording for every op: a slow spell of the machine slows them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from simtool.profile.profile import Profile
from simtool.replay.keyed_rng import uniform
from simtool.replay.prices.price_list import PriceList
from simtool.replay.prices.step_program import GAP, compile_step
from simtool.replay.scenario import NoiseMode
from simtool.replay.step_planner import StepPlan
from simtool.step.beyond import Beyond, farthest

#: Anchors that share one draw of noise: their residuals are consecutive ones of the recording.
BLOCK_TOKENS = 32


class PricedStep:
    """One step's prices. ns: whole, by the program's places; those that grow with idle time are told by `grown`."""

    __slots__ = ("_intercept", "_noise", "_slope", "_sums", "ns", "program")

    def __init__(self, stock: _Stock, ns: list[int], sums: list[float], noise: list[int]) -> None:
        self.program, self.ns = stock.program, ns
        self._intercept, self._slope, self._sums, self._noise = stock.intercept, stock.idle_slope, sums, noise

    @property
    def gap_ns(self) -> int:
        """What the host's loop takes after the step."""
        return self.ns[GAP]

    def grown(self, place: int, idle: float) -> int:
        """Return a price that grows with what ran just before; idle: that feature's value."""
        line = self._intercept[place] + (self._sums[place] + self._slope[place] * idle)
        ns = round(line + self._noise[place])
        return ns if ns > 0 else 0


class CostSampler:
    """Prices steps, and remembers what was priced outside the calibrated sizes."""

    def __init__(self, profile: Profile, noise: NoiseMode, seed: int, handed_on: frozenset[str] = frozenset()) -> None:
        """`handed_on`: data that a warm step finds, for the step before launched it ahead."""
        self.profile, self._handed_on = profile, handed_on
        self._noisy, self._seed = noise == "residual", seed
        self._stocks: dict[tuple[str, bool, bool, bool], _Stock] = {}

    def price(self, plans: Sequence[StepPlan]) -> list[PricedStep]:
        """Return the prices of each step; raises ProfileError when the profile lacks an op of one.

        Steps of one kind are priced together.
        """
        stocks = [self._stock(plan) for plan in plans]
        priced: dict[int, PricedStep] = {}
        for stock in dict.fromkeys(stocks):
            places = [i for i, each in enumerate(stocks) if each is stock]
            some = [plans[i] for i in places]
            noise = self._noise(stock, some) if self._noisy else None
            priced.update(zip(places, stock.price(some, noise), strict=True))
        return [priced[i] for i in range(len(plans))]

    @property
    def extrapolated(self) -> tuple[Beyond, ...]:
        """What was priced outside the calibrated sizes, each at the size farthest out."""
        return farthest(beyond for stock in self._stocks.values() for beyond in stock.beyond())

    def _stock(self, plan: StepPlan) -> _Stock:
        kind = (plan.kind, plan.pruned, plan.warm, plan.ahead)
        if kind not in self._stocks:
            handed: frozenset[str] = self._handed_on if plan.warm else frozenset()
            program = compile_step(plan.kind, plan.ops, self.profile, pruned=plan.pruned, handed=handed)
            self._stocks[kind] = _Stock(PriceList(program, self.profile.name))
        return self._stocks[kind]

    def _noise(self, stock: _Stock, plans: Sequence[StepPlan]) -> NDArray[np.int64]:
        blocks = [divmod(anchor, BLOCK_TOKENS) for _, anchor in (plan.key for plan in plans)]
        luck = [uniform(self._seed, plan.key[0], block) for plan, (block, _) in zip(plans, blocks, strict=True)]
        return stock.prices.noise(np.array(luck, np.float64), np.array([place for _, place in blocks], np.int64))


class _Stock:
    """A price list at hand: as lists what is looked up one by one, and the extremes of the sizes priced so far."""

    def __init__(self, prices: PriceList) -> None:
        self.prices, self.program = prices, prices.program
        self.intercept: list[float] = prices.intercept.tolist()
        self.idle_slope: list[float] = prices.idle_slope.tolist()
        self._no_noise = [0] * len(self.intercept)
        self._extremes = np.full(len(prices.features), np.inf), np.full(len(prices.features), -np.inf)

    def price(self, plans: Sequence[StepPlan], noise: NDArray[np.int64] | None) -> Iterator[PricedStep]:
        sizes, (low, high) = np.array([plan.sizes for plan in plans], np.float64), self._extremes
        self._extremes = np.minimum(low, sizes.min(axis=0)), np.maximum(high, sizes.max(axis=0))
        sums = self.prices.sums(sizes)
        drawn = [self._no_noise] * len(plans) if noise is None else noise.tolist()
        for ns, own_sums, own_noise in zip(self.prices.rounded(sums, noise), sums.tolist(), drawn, strict=True):
            yield PricedStep(self, ns, own_sums, own_noise)

    def beyond(self) -> Iterator[Beyond]:
        return self.prices.outside(*self._extremes)

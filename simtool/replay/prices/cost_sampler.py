"""Costs in whole ns: the profile's expectation, and when asked the noise that its fits left over.

All prices of a step are reckoned at once. What grows with what ran just before is finished when the work begins.

Noise is a block bootstrap with common random numbers. The draw is keyed by the seed and by the work itself (request
and anchor), not by when or in which placement it runs, so that placements differ in their order and not in what
they drew. One draw picks the same point of the recording for every op: a slow spell of the machine slows them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from simtool.profile.profile import Profile
from simtool.replay.caveats import Beyond, farthest
from simtool.replay.keyed_rng import uniform
from simtool.replay.prices.price_list import PriceList
from simtool.replay.prices.step_program import GAP, compile_step
from simtool.replay.scenario import NoiseMode
from simtool.step.ops import Op

#: Anchors that share one draw of noise: their residuals are consecutive ones of the recording.
BLOCK_TOKENS = 32
_REMEMBERED = 4096  # steps whose sizes are kept before only their extremes are


class PricedStep:
    """One step's prices. ns: whole, by the program's places; those that grow with idle time are told by `grown`."""

    __slots__ = ("_intercept", "_noise", "_slope", "_sums", "ns", "program")

    def __init__(self, stock: _Stock, sums: NDArray[np.float64], noise: NDArray[np.int64] | None) -> None:
        self.program = stock.program
        self.ns = stock.prices.rounded(sums, noise)
        self._intercept, self._slope, self._sums = stock.intercept, stock.idle_slope, sums.tolist()
        self._noise = stock.no_noise if noise is None else noise.tolist()

    @property
    def gap_ns(self) -> int:
        """What the host's loop takes after the step."""
        return self.ns[GAP]

    def grown(self, place: int, idle: float) -> int:
        """Return a price that grows with what ran just before; idle: that feature's value."""
        line: float = self._intercept[place] + (self._sums[place] + self._slope[place] * idle)
        ns = round(line + self._noise[place])
        return ns if ns > 0 else 0


class CostSampler:
    """Prices steps, and remembers what was priced outside the calibrated sizes."""

    def __init__(self, profile: Profile, noise: NoiseMode, seed: int, handed_on: frozenset[str] = frozenset()) -> None:
        """`handed_on`: data that a warm step finds, for the step before launched it ahead."""
        self.profile, self._handed_on = profile, handed_on
        self._noisy, self._seed = noise == "residual", seed
        self._stocks: dict[tuple[str, bool, bool, bool], _Stock] = {}

    def price(
        self,
        kind: str,
        ops: Sequence[Op],
        sizes: Sequence[float],
        key: tuple[str, int],
        *,
        pruned: bool,
        warm: bool = False,
        ahead: bool = False,
    ) -> PricedStep:
        """Return the prices of a step of one kind; raises ProfileError when the profile lacks one of its ops.

        sizes: in the order of the kind's features. key: names the step's work alike under every placement. warm: the
        step before launched ahead for it; ahead: it does so for the next.
        """
        stock = self._stocks.get((kind, pruned, warm, ahead))
        if stock is None:
            handed: frozenset[str] = self._handed_on if warm else frozenset()
            program = compile_step(kind, ops, self.profile, pruned=pruned, handed=handed)
            stock = self._stocks[kind, pruned, warm, ahead] = _Stock(PriceList(program, self.profile.name))
        return PricedStep(stock, stock.sums(sizes), self._noise(stock, key))

    @property
    def extrapolated(self) -> tuple[Beyond, ...]:
        """What was priced outside the calibrated sizes, each at the size farthest out."""
        return farthest(beyond for stock in self._stocks.values() for beyond in stock.beyond())

    def _noise(self, stock: _Stock, key: tuple[str, int]) -> NDArray[np.int64] | None:
        if not self._noisy:
            return None
        request_id, anchor = key
        block, place = divmod(anchor, BLOCK_TOKENS)
        return stock.prices.noise(uniform(self._seed, request_id, block), place)


class _Stock:
    """A price list at hand: as lists what is looked up one by one, and the sizes that were priced so far."""

    def __init__(self, prices: PriceList) -> None:
        self.prices, self.program = prices, prices.program
        self.intercept: list[float] = prices.intercept.tolist()
        self.idle_slope: list[float] = prices.idle_slope.tolist()
        self.no_noise = [0] * len(self.intercept)
        self._extremes = np.full(len(prices.features), np.inf), np.full(len(prices.features), -np.inf)
        self._priced: list[Sequence[float]] = []

    def sums(self, sizes: Sequence[float]) -> NDArray[np.float64]:
        self._priced.append(sizes)
        if len(self._priced) == _REMEMBERED:
            self._forget()
        return self.prices.sums(np.array(sizes, np.float64))

    def beyond(self) -> Iterator[Beyond]:
        self._forget()
        return self.prices.outside(*self._extremes)

    def _forget(self) -> None:
        """Keep only the smallest and the largest of the sizes."""
        if self._priced:
            sizes, (low, high) = np.array(self._priced, np.float64), self._extremes
            self._extremes = np.minimum(low, sizes.min(axis=0)), np.maximum(high, sizes.max(axis=0))
            self._priced.clear()

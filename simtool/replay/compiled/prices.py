"""Costs as arrays: the simulator's price lists one after the other, and its pricing of one of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simtool.replay.compiled.kernel import part
from simtool.replay.prices.price_list import PriceList
from simtool.step.idle_effects import IDLE_UNIT_NS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Prices(NamedTuple):
    """Costs by number, in ns. Those of cost c: size (column) and slope from line_at[c] to line_at[c + 1], residuals
    likewise. idle_slope: a doubling of what ran just before; 0: it has no say.
    """

    intercept: Floats
    idle_slope: Floats
    line_at: Ints
    size: Ints
    slope: Floats
    residual_at: Ints
    residual: Ints


def make_prices(lists: Sequence[PriceList], *, noisy: bool) -> Prices:
    """Return the prices of several kinds of step, numbered through; noisy: with their residuals."""
    lines = [line for prices in lists for line in prices.lines]
    counts = np.concatenate([np.zeros(0, np.int64), *(prices.residual_count for prices in lists)]) * noisy
    residuals = [prices.residuals for prices in lists] if noisy else []
    return Prices(
        intercept=np.concatenate([np.zeros(0), *(prices.intercept for prices in lists)]),
        idle_slope=np.concatenate([np.zeros(0), *(prices.idle_slope for prices in lists)]),
        line_at=np.cumsum([0, *map(len, lines)], dtype=np.int64),
        size=np.array([size for line in lines for size, _ in line], np.int64),
        slope=np.array([slope for line in lines for _, slope in line], np.float64),
        residual_at=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        residual=np.concatenate([np.zeros(0, np.int64), *residuals]),
    )


class Basis(NamedTuple):
    """What a step's prices rest on. sizes: [columns]. luck: the draw of its block of anchors, below 0 without noise;
    place: of its anchor in the block.
    """

    sizes: Floats
    luck: float
    place: int


@part
def idle_doublings(time_ns: int) -> float:
    """Return the feature of a time in ns, as `idle_effects.idle_doublings`."""
    return math.log2(1 + time_ns / IDLE_UNIT_NS)


@part
def offset_ns(prices: Prices, cost: int, basis: Basis, past_ns: int) -> int:
    """Return a distance in time, which may be negative. past_ns: how long what ran just before took."""
    total = 0.0
    for term in range(prices.line_at[cost], prices.line_at[cost + 1]):
        total += prices.slope[term] * basis.sizes[prices.size[term]]
    if prices.idle_slope[cost] != 0.0:
        total += prices.idle_slope[cost] * idle_doublings(past_ns)
    value = prices.intercept[cost] + total
    first = prices.residual_at[cost]
    count = prices.residual_at[cost + 1] - first
    if basis.luck >= 0.0 and count:
        at = int(basis.luck * count) + basis.place
        if at >= count:
            at = at - count if at < 2 * count else at % count  # a division takes as long as all the rest
        value += prices.residual[first + at]
    return int(np.rint(value))


@part
def cost_ns(prices: Prices, cost: int, basis: Basis, past_ns: int) -> int:
    """Return a duration, never below zero."""
    return max(0, offset_ns(prices, cost, basis, past_ns))

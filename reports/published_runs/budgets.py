"""What a verify budget is worth: tokens by budget, time by rows, and the budget that pays most.

A confidence that knows nothing beyond the position gives the least that a budget can gain, one that knows every outcome
the most; between them is one that explains a stated share of the variance of accepted drafts (its sharpness).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simtool.replay.synthetic.draw import generator
from simtool.replay.synthetic.process import AcceptanceProcess
from simtool.replay.synthetic.solve import solve

Reals = NDArray[np.float64]
#: Rows of the whole batch -> ms of a step.
Clock = Callable[[float], float]

_DRAWN_ROWS = 20_000


@dataclass(frozen=True)
class Choice:
    """A budget of one step. drafts: of the whole batch. tokens: expected to be emitted. ms: of the step."""

    drafts: int
    tokens: float
    ms: float

    @property
    def rate(self) -> float:
        """Tokens per ms."""
        return self.tokens / self.ms


def tokens_by_budget(acceptance: tuple[float, ...], batch: int, sharpness: float, seed: int = 0) -> Reals:
    """Return expected tokens of a step that verifies the 0, 1, ... drafts likeliest to count: [batch x N + 1].

    sharpness 0: the position is all that is known; 1: every outcome is; between: a mean over drawn batches.
    """
    drafts = len(acceptance)
    budgets = np.arange(batch * drafts + 1, dtype=np.float64)
    if sharpness == 1:
        return batch + np.minimum(budgets, batch * sum(acceptance))
    if sharpness == 0:
        return batch + np.concatenate([[0.0], np.cumsum(np.repeat(np.array(acceptance), batch))])
    shape = solve(AcceptanceProcess(acceptance=acceptance, sharpness=sharpness, confidence_autocorrelation=0.0))
    draws = max(50, _DRAWN_ROWS // batch)
    ease = generator(seed, 0).standard_normal(draws * batch)
    survival = np.cumprod(shape.chances(ease), axis=1).reshape(draws, batch * drafts)
    mean = np.sort(survival, axis=1)[:, ::-1].mean(axis=0)
    mean *= batch * sum(acceptance) / mean.sum()  # the draw's own error, at all drafts
    return batch + np.concatenate([[0.0], np.cumsum(mean)])


def best(tokens: Reals, batch: int, clock: Clock) -> Choice:
    """Return the budget of the highest rate, the smallest of equals."""
    return max(choices(tokens, batch, clock), key=lambda choice: choice.rate)


def strict_stop(tokens: Reals, batch: int, clock: Clock) -> Choice:
    """Return where a scan ends that stops at the first draft which does not raise the rate (DSpark, algorithm 1)."""
    found = choices(tokens, batch, clock)
    at = 0
    while at + 1 < len(found) and found[at + 1].rate > found[at].rate:
        at += 1
    return found[at]


def choices(tokens: Reals, batch: int, clock: Clock) -> list[Choice]:
    """Return every budget from no draft on."""
    return [Choice(drafts, float(many), clock(batch + drafts)) for drafts, many in enumerate(tokens)]


def rows_for(tokens: Reals, batch: int, wanted: float) -> float:
    """Return the rows at which so many tokens are expected, between budgets by a straight line."""
    return batch + float(np.interp(wanted, tokens, np.arange(len(tokens))))


def line(first: tuple[float, float], second: tuple[float, float]) -> Clock:
    """Return the straight line through two measured (rows, ms)."""
    slope = (second[1] - first[1]) / (second[0] - first[0])
    return lambda rows: first[1] + slope * (rows - first[0])


def stairs(table: Mapping[int, float], more_ms: float = 0.0) -> Clock:
    """Return a table of graph sizes as a clock: a batch runs in the smallest graph that holds it.

    more_ms: of the step besides the verify. Raises ValueError beyond the largest graph.
    """
    sizes = np.array(sorted(table))
    times = np.array([table[size] for size in sizes.tolist()]) + more_ms

    def clock(rows: float) -> float:
        place = int(np.searchsorted(sizes, rows))
        if place == len(sizes):
            raise ValueError(f"{rows:g} rows; the largest graph holds {sizes[-1]}")
        return float(times[place])

    return clock

"""A prediction beside what was published, and whether the published spread covers it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from published_runs.tables import Spread

_NORMAL = 1.959963984540054


class Verdict(StrEnum):
    """How a prediction fares."""

    COVERED = "covered"
    WIDE_ONLY = "only by the upper spread"
    MISSED = "missed"
    INSIDE = "inside"
    OUTSIDE = "outside"


#: Those that hold against the prediction.
MISSES = (Verdict.MISSED, Verdict.OUTSIDE)


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A published figure and what is predicted for it from others; both as ratios less 1 where they are gains.

    low, high: what is predicted, over what the inputs leave open. spread: of repetitions of one arm; None: none is
    published, and the figure is then inside or outside of what is predicted. gain: the figure is a gain of one run of
    each of two arms; else a figure of one arm.
    """

    source: str
    setting: str
    figure: str
    low: float
    high: float
    published: float
    spread: Spread | None
    gain: bool = True

    def interval(self, deviation: float) -> tuple[float, float]:
        """Return the 95 % interval of the published figure at a coefficient of variation of one arm's runs."""
        arms = 2 if self.gain else 1
        factor = math.exp(_NORMAL * math.sqrt(arms) * deviation)
        centre = 1 + self.published if self.gain else self.published
        ends = centre / factor, centre * factor
        return (ends[0] - 1, ends[1] - 1) if self.gain else ends

    @property
    def verdict(self) -> Verdict:
        """Whether the published figure, as far as its spread tells it, can be what is predicted."""
        if self.spread is None:
            return Verdict.INSIDE if self.low <= self.published <= self.high else Verdict.OUTSIDE
        if self._meets(self.spread.low):
            return Verdict.COVERED
        return Verdict.WIDE_ONLY if self._meets(self.spread.high) else Verdict.MISSED

    @property
    def sign_holds(self) -> bool | None:
        """Whether a gain has the predicted sign; None where the prediction allows either, or it is no gain."""
        if not self.gain or self.low < 0 < self.high:
            return None
        return self.published >= 0 if self.low >= 0 else self.published <= 0

    def _meets(self, deviation: float) -> bool:
        low, high = self.interval(deviation)
        return low <= self.high and self.low <= high


def gain(new: float, old: float) -> float:
    """Return how much more the new is, as a share of the old."""
    return new / old - 1

"""Costs priced beyond what they were fitted on: what a verdict must say of it, and when it may still be sure.

An interval of draws covers the noise and the fit, and neither knows what lies beyond the fitted sizes. What is known
of that was judged live (docs/fidelity.md): a difference that is smaller than the worst error there cannot be told, and
of a larger one only the direction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simtool.profile.judged_live import StretchError, stretch_error
from simtool.stats.interval import Interval
from simtool.step.beyond import Beyond, stretch_of


@dataclass(frozen=True)
class Extrapolation:
    """How far a step was stretched, and how far off such costs were at worst; error None: nobody judged any as far."""

    stretch: Beyond
    error: StretchError | None

    def allows(self, ratio: Interval) -> bool:
        """Whether a ratio's interval, widened by the worst error known, still leaves out 1."""
        if self.error is None or ratio.bounds is None:
            return False
        low, high = ratio.bounds
        return low - self.error.worst > 1 or high + self.error.worst < 1

    def tells(self, change: float) -> bool:
        """Whether a change, a share, is larger than the worst error known."""
        return self.error is not None and abs(change) > self.error.worst

    @property
    def where(self) -> str:
        """What was left behind, such as "extrapolated beyond batch 32"."""
        side = "beyond" if self.stretch.above else "below"
        feature = self.stretch.feature.replace("_", " ")
        return f"extrapolated {side} {feature} {self.stretch.edge:g}"

    @property
    def opening(self) -> str:
        """What opens an answer that no comparison makes."""
        return f"{self.where}, so direction only"

    @property
    def known(self) -> str:
        """How far off costs stretched as far were."""
        if self.error is None:
            return "nobody judged costs stretched as far"
        return f"costs stretched as far were up to {self.error.worst * 100:.1f} points off ({self.error.page})"

    def __str__(self) -> str:
        return f"{self.where}: direction only, {self.known}"


def extrapolation(beyond: Iterable[Beyond]) -> Extrapolation | None:
    """Return what is to be said of work priced beyond its calibrated sizes; None where the step was not stretched."""
    return of_stretches(each for each in [stretch_of(beyond)] if each is not None)


def of_stretches(stretches: Iterable[Beyond]) -> Extrapolation | None:
    """Return what is to be said of several replays, each with what tells best how far its step was stretched."""
    worst = max(stretches, key=lambda each: each.times, default=None)
    return None if worst is None else Extrapolation(worst, stretch_error(worst.times, above=worst.above))

"""What a comparison found, and in words: never more than its interval allows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from simtool.analysis.comparison.extrapolation import Extrapolation
from simtool.analysis.comparison.headline import Metric, disagree
from simtool.analysis.comparison.noise import NO_LOAD, ForeignLoad
from simtool.analysis.comparison.order import Order
from simtool.stats.interval import LEVEL_TEXT, Interval


class Over(StrEnum):
    """What an interval ranges over: the word that stands beside it, in every command and page (docs/statistics.md)."""

    STEPS = "steps"
    RUNS = "runs"
    SEEDS = "seeds"
    DRAWS = "draws"


DRAWS_REMEDY = "draws of noise would tell: simtool replay --noise residual --seeds 8"
DRIFT_REMEDY = "runs drift; record 3 or more interleaved repetitions"


@dataclass(frozen=True)
class Comparison:
    """other / baseline, by name. found: the metric's ratio with its interval, and how that was made; over: whose
    spread that is.

    needed: repetitions (or, with one run each, times as many steps) at which an effect of this size would be
    resolved; None: beyond any plan, or not known. drifts: the runs were measured, so that two of one setting differ by
    more than their steps tell. order: how measured repetitions lie in time. unused: runs left out, for the other arm
    has one only. caveat: what else differs, and so may be what made the difference. instead: why another metric is
    compared than was asked for. other_metric, other_ratio: the other of steady and whole-run tok/s, and its ratio; None
    where it was not compared. load: of other programs on the machine. extrapolation: replays priced beyond the
    calibrated sizes; None where there are none.
    """

    metric: Metric
    baseline: str
    other: str
    found: Interval
    repetitions: int
    needed: int | None
    drifts: bool
    over: Over
    order: Order = Order.UNTIMED
    unused: tuple[str, ...] = ()
    caveat: str = ""
    instead: str = ""
    other_metric: Metric | None = None
    other_ratio: float | None = None
    load: ForeignLoad = NO_LOAD
    extrapolation: Extrapolation | None = None

    @property
    def ratio(self) -> float:
        """other / baseline."""
        return self.found.mean

    @property
    def method(self) -> str:
        """How the interval was made, or why there is none."""
        return self.found.method

    @property
    def resolved(self) -> bool:
        """Whether the interval leaves out "no difference", and sees all that could have made one."""
        return self._clear and not self._blind and self._reaches

    @property
    def spans(self) -> bool:
        """Whether there is an interval, and it holds "no difference"."""
        return self.found.contains(1.0)

    @property
    def faster(self) -> bool:
        """Whether the other arm came out ahead, resolved or not."""
        return (self.ratio > 1) == self.metric.more_is_better

    @property
    def disagrees(self) -> bool:
        """Whether the other of steady and whole-run tok/s points the other way."""
        if self.other_ratio is None or self.metric is Metric.STEP_TIME:
            return False
        return disagree(self.ratio - 1, self.other_ratio - 1)

    @property
    def _clear(self) -> bool:
        return self.found.side(1.0) != 0

    @property
    def _blind(self) -> bool:
        return self.drifts and (self.repetitions == 1 or self.order is Order.APART)

    @property
    def _reaches(self) -> bool:
        """Whether the difference is larger than what costs beyond the calibrated sizes may be off by."""
        return self.extrapolation is None or self.extrapolation.allows(self.found)

    @property
    def interval(self) -> str:
        """The interval of the change, in percent, and what it ranges over; a dash where there is none."""
        return self.ends if self.found.bounds is None else f"{self.ends} over {self.over}"

    @property
    def ends(self) -> str:
        """The interval of the change, in percent, for where it is said elsewhere what it ranges over."""
        return self.found.text(_percent)

    @property
    def verdict(self) -> str:
        """One sentence: what can be said, and if nothing, what it would take; and what else may have done it."""
        return "; ".join(part for part in (self.load.warning, self.claim) if part)

    @property
    def claim(self) -> str:
        """The verdict without what the noise gate says."""
        parts = (self._claim, self._stretched, self._opposite if self.resolved else "", self.instead, self.caveat)
        return "; ".join(part for part in parts if part)

    @property
    def _claim(self) -> str:
        if self.found.bounds is None:
            why = f"cannot tell {self.other} from {self.baseline}: {self.method} (here it {self._effect()})"
            remedy = DRIFT_REMEDY if self._blind else DRAWS_REMEDY if self.over is Over.STEPS else ""
            return f"{why}; {remedy}" if remedy else why
        interval = f"{LEVEL_TEXT} interval {self.interval}"
        if self.resolved:
            return f"{self.other} {self._effect()} than {self.baseline} ({interval})"
        if self._clear and not self._blind and self.extrapolation is not None:
            return (
                f"cannot tell {self.other} from {self.baseline}: {self.extrapolation.where}, and "
                f"{self.extrapolation.known}; it {self._effect()} here ({interval})"
            )
        if self._clear and self.repetitions == 1:
            return (
                f"cannot tell {self.other} from {self.baseline} by one run each: it {self._effect()} here "
                f"({interval} within the runs), but {DRIFT_REMEDY}"
            )
        if self._clear:
            return (
                f"cannot tell {self.other} from {self.baseline}: their repetitions were {self.order}, and a machine "
                f"drifts; it {self._effect()} here ({interval} were there no drift); record them interleaved"
            )
        return f"cannot tell {self.other} from {self.baseline}: the {interval} spans zero; {self._remedy()}"

    @property
    def _stretched(self) -> str:
        """What is to be said of costs beyond the calibrated sizes, where the claim has not said it."""
        if self.extrapolation is None or (self._clear and not self.resolved):
            return ""
        return str(self.extrapolation) if self.resolved else self.extrapolation.where

    @property
    def _opposite(self) -> str:
        if not self.disagrees or self.other_ratio is None:
            return ""
        where = "over the whole run" if self.other_metric is Metric.WHOLE_RUN else "at full occupancy"
        more = "more" if self.other_ratio > 1 else "fewer"
        return f"{where} the other way: {abs(self.other_ratio - 1) * 100:.1f} % {more}"

    def _effect(self) -> str:
        size = f"{abs(self.ratio - 1) * 100:.1f} %"
        if self.metric is Metric.STEP_TIME:
            return f"has {size} {'shorter' if self.faster else 'longer'} steps"
        where = " over the whole run" if self.metric is Metric.WHOLE_RUN else ""
        return f"gives {size} {'more' if self.faster else 'fewer'} tokens/s{where}"

    def _remedy(self) -> str:
        if self.over is Over.DRAWS:
            return "more draws would not narrow it, for that is how well the costs are known"
        if self.needed is None:
            return "no affordable number of repetitions would settle an effect this small"
        if self.repetitions == 1:
            return f"about {self.needed} times as many steps, or repetitions, would be needed"
        more = max(self.needed - self.repetitions, 1)
        return f"about {more} more repetition{'s' if more > 1 else ''} would be needed, were this its size"


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %"

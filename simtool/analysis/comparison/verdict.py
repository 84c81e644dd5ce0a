"""The answer to "which placement?", for every group of arms that may be compared: one origin, one batch shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simtool.analysis.comparison.arms import Arm
from simtool.analysis.comparison.compare import DRIFT_REMEDY, Comparison, Metric, compare
from simtool.errors import UsageError

#: What a placement is judged against, the first that is there: the pull request's own behaviour, then no pruning.
_BASELINES = ("this-step", "static")


@dataclass(frozen=True)
class Verdict:
    """One group: its baseline, and every other arm against it."""

    group: str
    baseline: Arm
    comparisons: tuple[Comparison, ...]

    @property
    def headline(self) -> str:
        """One sentence that starts with the group; never more than the intervals allow."""
        return f"{self.group}: {self._claim()}"

    @property
    def method(self) -> str:
        """How the headline's interval was made."""
        return self.best.method if self.comparisons else ""

    @property
    def best(self) -> Comparison:
        """The arm that is furthest ahead, or least behind: of those that are resolved, where any is."""
        ahead = self.comparisons[0].metric is Metric.TOKENS_PER_S
        return max(self.comparisons, key=lambda each: (each.resolved, each.ratio if ahead else -each.ratio))

    def _claim(self) -> str:
        if not self.comparisons:
            return f"{self.baseline.name} is alone, so there is nothing to compare it with"
        if len(self.comparisons) > 1 and not any(each.resolved for each in self.comparisons):
            claim = f"cannot tell {', '.join(each.other for each in self.comparisons)} from {self.baseline.name}"
            caveats = "".join(f"; {each.caveat}" for each in self.comparisons if each.caveat)
            if all(each.drifts and each.repetitions == 1 for each in self.comparisons):
                return f"{claim} by one run each: {DRIFT_REMEDY}{caveats}"
            intervals = ", ".join(f"{each.other} {each.interval}" for each in self.comparisons)
            return f"{claim}: every 95 % interval spans zero ({intervals}){caveats}"
        best = self.best
        better = (best.ratio > 1) == (best.metric is Metric.TOKENS_PER_S)
        if all(each.resolved for each in self.comparisons) and not better:
            return f"nothing beats {self.baseline.name}; the closest: {best.verdict}"
        return best.verdict


def verdicts(arms: Sequence[Arm], metric: Metric = Metric.TOKENS_PER_S, baseline: str | None = None) -> list[Verdict]:
    """Compare the arms of every group with the group's baseline.

    baseline: a placement's name; None takes this-step, else static, else the first arm. Raises UsageError when no
    group has that placement.
    """
    groups: dict[str, list[Arm]] = {}
    for arm in arms:
        groups.setdefault(arm.group, []).append(arm)
    if baseline is not None and baseline not in {arm.placement for arm in arms}:
        known = ", ".join(sorted({arm.placement for arm in arms}))
        raise UsageError(f"--baseline is {baseline!r}; expected a placement among the traces: {known}")
    return [_verdict_of(group, members, metric, baseline) for group, members in groups.items()]


def _verdict_of(group: str, arms: list[Arm], metric: Metric, wanted: str | None) -> Verdict:
    names = [arm.placement for arm in arms]
    preferred = [name for name in (wanted, *_BASELINES) if name in names]
    baseline = arms[names.index(preferred[0])] if preferred else arms[0]
    return Verdict(group, baseline, tuple(compare(baseline, arm, metric) for arm in arms if arm is not baseline))

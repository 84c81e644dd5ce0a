"""The answer to "which placement?", for every group of arms that may be compared: one origin, one batch shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simtool.analysis.comparison.arms import Arm
from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.comparison import DRIFT_REMEDY, Comparison
from simtool.analysis.comparison.headline import HEADLINE, Metric, baseline_of
from simtool.analysis.comparison.noise import ForeignLoad, foreign_load
from simtool.errors import UsageError
from simtool.stats.interval import LEVEL_TEXT
from simtool.trace.trace import Trace


@dataclass(frozen=True)
class Verdict:
    """One group: its baseline, and every other arm against it. traces: of all its runs. copies: see Arm. beside: what
    else was given, of other groups.
    """

    group: str
    baseline: Arm
    comparisons: tuple[Comparison, ...]
    traces: tuple[Trace, ...] = ()
    copies: tuple[str, ...] = ()
    beside: tuple[Arm, ...] = ()

    @property
    def headline(self) -> str:
        """One sentence that starts with the group; never more than the intervals and the noise gate allow."""
        return f"{self.group}: {'; '.join(part for part in (self.load.warning, self._claim()) if part)}"

    @property
    def told(self) -> bool:
        """Whether there is an answer to act on: some difference is resolved, on a machine that was quiet enough."""
        return self.load.trustworthy and any(each.resolved for each in self.comparisons)

    @property
    def load(self) -> ForeignLoad:
        """What other programs took of the machine while any of the group's runs was measured."""
        return foreign_load(self.traces)

    @property
    def method(self) -> str:
        """How the headline's interval was made."""
        return self.best.method if self.comparisons else ""

    @property
    def best(self) -> Comparison:
        """The arm that is furthest ahead, or least behind: of those that are resolved, where any is."""
        ahead = self.comparisons[0].metric.more_is_better
        return max(self.comparisons, key=lambda each: (each.resolved, each.ratio if ahead else -each.ratio))

    @property
    def quoted(self) -> tuple[Comparison, ...]:
        """The comparisons whose own claims the headline quotes; none where it sums them up."""
        if not self._undecided:
            return (self.best,) if self.comparisons else ()
        return () if self._sums_up else self.comparisons

    def _other_groups(self) -> str:
        """Why what else was given is not compared with it, and the way out."""
        if not self.beside:
            return ""
        names = ", ".join(arm.label for arm in self.beside)
        if all(arm.origin == self.baseline.origin for arm in self.beside):
            return f"; {names} ran at another SL or concurrency; compare runs of one setting"
        return (
            f"; {names}: of another origin, so that a replay's error would pass for a gain; record both (simtool "
            "record --policy A --policy B --repeats 5) or replay both (simtool replay TRACE --policy A --policy B)"
        )

    @property
    def _undecided(self) -> bool:
        return len(self.comparisons) > 1 and not any(each.resolved for each in self.comparisons)

    @property
    def _by_one_run_each(self) -> bool:
        return all(each.drifts and each.repetitions == 1 for each in self.comparisons)

    @property
    def _sums_up(self) -> bool:
        return self._by_one_run_each or all(each.spans for each in self.comparisons)

    def _claim(self) -> str:
        if not self.comparisons:
            return f"{self.baseline.name} is alone, so there is nothing to compare it with{self._other_groups()}"
        if self._undecided:
            claim = f"cannot tell {', '.join(each.other for each in self.comparisons)} from {self.baseline.name}"
            caveats = "".join(f"; {each.caveat}" for each in self.comparisons if each.caveat)
            caveats += "".join(dict.fromkeys(f"; {e.extrapolation.where}" for e in self.comparisons if e.extrapolation))
            if self._by_one_run_each:
                return f"{claim} by one run each: {DRIFT_REMEDY}{caveats}"
            if not self._sums_up:
                return "; ".join(each.claim for each in self.comparisons)
            intervals = ", ".join(f"{each.other} {each.interval}" for each in self.comparisons)
            return f"{claim}: every {LEVEL_TEXT} interval spans zero ({intervals}){caveats}"
        best = self.best
        if all(each.resolved for each in self.comparisons) and not best.faster:
            return f"nothing beats {self.baseline.name}; the closest: {best.claim}"
        return best.claim


def verdicts(arms: Sequence[Arm], metric: Metric = HEADLINE, baseline: str | None = None) -> list[Verdict]:
    """Compare the arms of every group with the group's baseline.

    baseline: a placement's name; None takes the headline's, see `headline`. Raises UsageError when no
    group has that placement.
    """
    groups: dict[str, list[Arm]] = {}
    for arm in arms:
        groups.setdefault(arm.group, []).append(arm)
    if baseline is not None and baseline not in {arm.placement for arm in arms}:
        known = ", ".join(sorted({arm.placement for arm in arms}))
        raise UsageError(f"--baseline is {baseline!r}; expected a placement among the traces: {known}")
    return [
        _verdict_of(members, metric, baseline, tuple(arm for arm in arms if arm.group != group))
        for group, members in groups.items()
    ]


def _verdict_of(arms: list[Arm], metric: Metric, wanted: str | None, beside: tuple[Arm, ...]) -> Verdict:
    names = [arm.placement for arm in arms]
    baseline = arms[names.index(baseline_of(names, wanted))]
    return Verdict(
        group=baseline.group,
        baseline=baseline,
        comparisons=tuple(compare(baseline, arm, metric) for arm in arms if arm is not baseline),
        traces=tuple(trace for arm in arms for trace in arm.traces),
        copies=tuple(copy for arm in arms for copy in arm.copies),
        beside=beside,
    )

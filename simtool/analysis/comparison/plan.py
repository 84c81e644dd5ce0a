"""How many repetitions would tell a difference of some size between two arms, at the spread that they show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simtool.analysis.comparison.arms import Arm
from simtool.analysis.comparison.compare import fair_metric
from simtool.analysis.comparison.headline import HEADLINE, Metric
from simtool.analysis.comparison.influence import paired_influence, run_influence, same_tokens
from simtool.analysis.comparison.order import in_time_order
from simtool.analysis.comparison.runs import metric_value
from simtool.errors import UsageError
from simtool.stats.power import paired_repetitions, unpaired_repetitions
from simtool.stats.series import standard_error


@dataclass(frozen=True)
class PlannedSize:
    """Repetitions of each arm that tell a difference. difference: as a share of the baseline's metric.

    paired: interleaved, run beside run; unpaired: not. None: more than anybody plans, or not known.
    """

    difference: float
    paired: int | None
    unpaired: int | None


@dataclass(frozen=True)
class RepetitionPlan:
    """What two arms' repetitions say of repetitions to come.

    observed: the difference seen, as a share of the baseline's. paired_spread: deviation of a pair's log ratio, None
    where the repetitions do not pair. spreads: of each arm's log values. repetitions: of each arm, as seen; with one of
    either the spreads are what steps within a run tell, and repetitions of measured runs differ by more.
    """

    metric: Metric
    baseline: str
    other: str
    repetitions: tuple[int, int]
    observed: float
    paired_spread: float | None
    spreads: tuple[float, float]
    sizes: tuple[PlannedSize, ...]

    @property
    def at_least(self) -> bool:
        """Whether the counts are lower bounds, for the spread between runs was not seen."""
        return min(self.repetitions) == 1


def plan(baseline: Arm, other: Arm, differences: Sequence[float], power: float) -> RepetitionPlan:
    """Plan repetitions for differences of these sizes (shares, above -1 and not 0), each told with this chance.

    Raises UsageError where the runs are too short to tell their spread, or show none.
    """
    metric, _ = fair_metric(baseline, other, HEADLINE)  # as compare: never full, or full at other sizes
    if min(len(baseline.runs), len(other.runs)) > 1:
        spreads, paired = _between(baseline, other, metric)
    else:
        spreads, paired = _within(baseline, other, metric)
    if not all(spreads) or paired == 0:
        raise UsageError(f"{baseline.label} and {other.label}: repetitions do not differ, so one of each is enough")
    sizes = []
    for difference in differences:
        effect = math.log1p(difference)
        pairs = None if paired is None else paired_repetitions(effect, paired, power)
        sizes.append(PlannedSize(difference, pairs, unpaired_repetitions(effect, spreads, power)))
    return RepetitionPlan(
        metric=metric,
        baseline=baseline.name,
        other=other.name,
        repetitions=(len(baseline.runs), len(other.runs)),
        observed=math.expm1(_logs(other, metric).mean() - _logs(baseline, metric).mean()),
        paired_spread=paired,
        spreads=spreads,
        sizes=tuple(sizes),
    )


def _between(baseline: Arm, other: Arm, metric: Metric) -> tuple[tuple[float, float], float | None]:
    """Deviations of the log metric between repetitions, and of a pair's difference where they pair."""
    one, two = _logs(baseline, metric), _logs(other, metric)
    paired = float((two - one).std(ddof=1)) if len(one) == len(two) else None
    return (float(one.std(ddof=1)), float(two.std(ddof=1))), paired


def _within(baseline: Arm, other: Arm, metric: Metric) -> tuple[tuple[float, float], float | None]:
    """The same as far as the steps of one run each tell."""
    first, second = baseline.runs[0], other.runs[0]
    errors = [standard_error(run_influence(run, metric), run.cycles) for run in (first, second)]
    if errors[0] is None or errors[1] is None:
        raise UsageError(
            f"{baseline.label} and {other.label}: one run each, too short to tell its spread; give 2 or more "
            f"repetitions of each: simtool record --policy {baseline.placement} --policy {other.placement} --repeats 3"
        )
    pairs = metric is not Metric.STEP_TIME and same_tokens(first, second)
    return (errors[0], errors[1]), standard_error(
        paired_influence(first, second, metric), first.cycles
    ) if pairs else None


def _logs(arm: Arm, metric: Metric) -> NDArray[np.float64]:
    return np.asarray(np.log([metric_value(run, metric) for run in in_time_order(arm.runs)]))

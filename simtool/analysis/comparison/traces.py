"""Comparing traces: arms from runs, an interval for every difference, and what makes them unlike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simtool.analysis.comparison.arms import differences, gather_arms
from simtool.analysis.comparison.headline import HEADLINE, Metric
from simtool.analysis.comparison.verdict import Verdict, verdicts
from simtool.errors import UsageError
from simtool.trace.trace import Trace


@dataclass(frozen=True)
class ComparedTraces:
    """verdicts: one a group of arms that may be compared. findings: why the traces are not alike; empty is well."""

    verdicts: tuple[Verdict, ...]
    findings: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([*(each.headline for each in self.verdicts), *self.findings])


def compare_traces(
    traces: Sequence[Trace], *, baseline: str | None = None, metric: Metric | str = HEADLINE
) -> ComparedTraces:
    """Compare two or more traces with 95 % intervals; runs of one setting are repetitions, paired in the order given.

    baseline: a placement's name; None takes static, else this-step, else the first. metric: tokens_per_s and step_time,
    both at full occupancy, or whole_run_tokens_per_s. Raises UsageError for fewer than two traces, one without a decode
    step, a baseline that is not among them, or an unknown metric.

    >>> print(compare_traces([open_trace("a"), open_trace("b")]))  # doctest: +SKIP
    """
    if len(traces) < 2:
        raise UsageError(f"{len(traces)} trace given; give two or more to compare")
    if metric not in list(Metric):
        raise UsageError(f"metric is {metric!r}; expected one of {', '.join(Metric)}")
    arms = gather_arms(traces)
    for run in (run for arm in arms for run in arm.runs):
        if not len(run.tokens):
            raise UsageError(f"{run.name}: holds no decode step to compare; give a recording or a replay of one")
    return ComparedTraces(tuple(verdicts(arms, Metric(metric), baseline)), tuple(differences(traces)))

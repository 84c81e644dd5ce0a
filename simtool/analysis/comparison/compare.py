"""Is one arm really faster than another? A ratio with its interval.

Everything is done on log ratios, so that A over B says exactly what B over A does. With repetitions the unit is the
run: paired runs (interleaved recordings, in the order in which they ran) under Student's t, others under Welch's.
With one run each the unit is the step: steps resemble their neighbours, which `simtool.stats.series` reckons with, and
which it refuses to do for a handful of them. Two greedy runs of the same requests emit the same tokens, so their
steps are first paired by tokens emitted. That interval cannot see drift between runs: a replay has none, but a
measurement has, so one live run each never settles anything here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simtool.analysis.comparison.arms import Arm, unlike_machines
from simtool.analysis.comparison.comparison import Comparison, Over
from simtool.analysis.comparison.extrapolation import of_stretches
from simtool.analysis.comparison.headline import HEADLINE, Metric
from simtool.analysis.comparison.influence import paired_influence, run_influence, same_tokens
from simtool.analysis.comparison.noise import foreign_load
from simtool.analysis.comparison.order import Order, in_time_order, order_of
from simtool.analysis.comparison.runs import Run, metric_value
from simtool.errors import UsageError
from simtool.stats.interval import Interval
from simtool.stats.repetitions import MAX_REPETITIONS, repetitions_needed
from simtool.stats.series import log_interval
from simtool.stats.student import mean_interval, welch_interval

_OTHER_REQUESTS = "some runs served requests that no run of the other arm served; compare runs of the same requests"
_OTHER = {Metric.TOKENS_PER_S: Metric.WHOLE_RUN, Metric.WHOLE_RUN: Metric.TOKENS_PER_S}


def compare(baseline: Arm, other: Arm, metric: Metric = HEADLINE) -> Comparison:
    """Compare two arms; see the module's text for the method.

    Paired runs at refitted costs are draws of what is not known: their spread is the uncertainty itself, so the
    interval is of one draw, not of their mean, and more of them do not narrow it. Raises UsageError where step times
    are asked for and the steps are not alike.
    """
    draws = all(run.refitted for arm in (baseline, other) for run in arm.runs)
    used, instead = fair_metric(baseline, other, metric)
    counts = len(baseline.runs), len(other.runs)
    drifts = any(arm.origin != "modeled" for arm in (baseline, other))
    order = order_of(baseline.runs, other.runs) if drifts else Order.UNTIMED
    unused: tuple[str, ...] = ()
    if min(counts) < 2:
        found, needed = _by_steps(baseline.runs[0], other.runs[0], used)
        unused = tuple(run.name for arm in (baseline, other) for run in arm.runs[1:])
        if unused:
            single = next(arm.name for arm in (baseline, other) if len(arm.runs) == 1)
            text = f"{found.method}; not used, for {single} has one run only: {', '.join(unused)}"
            found = found.because(text)
    else:
        found, needed = _by_runs(baseline.runs, other.runs, used, order, draws=draws)
        if _served_otherwise(baseline, other):
            found = Interval(found.mean, method=_OTHER_REQUESTS)
            needed = None
    opposite = _OTHER.get(used) if not instead and _have_whole(baseline, other) else None
    return Comparison(
        metric=used,
        baseline=baseline.name,
        other=other.name,
        found=found.mapped(math.exp),
        repetitions=min(counts),
        needed=needed,
        drifts=drifts,
        over=_over(counts, drifts=drifts, draws=draws),
        order=order,
        unused=unused,
        caveat=unlike_machines(baseline, other),
        instead=instead,
        other_metric=opposite,
        other_ratio=None if opposite is None else math.exp(_log_mean(other, opposite) - _log_mean(baseline, opposite)),
        load=foreign_load([*baseline.traces, *other.traces]),
        extrapolation=of_stretches(
            run.stretch for arm in (baseline, other) for run in arm.runs if run.stretch is not None
        ),
    )


def _over(counts: tuple[int, int], *, drifts: bool, draws: bool) -> Over:
    if min(counts) < 2:
        return Over.STEPS
    if drifts:
        return Over.RUNS
    return Over.DRAWS if draws else Over.SEEDS


def fair_metric(baseline: Arm, other: Arm, metric: Metric) -> tuple[Metric, str]:
    """Return the metric by which the arms are alike, and why it is not the one asked for; "" where it is.

    Raises UsageError where step times are asked for and the steps are not alike.
    """
    wholes = [run.whole for arm in (baseline, other) for run in arm.runs]
    known = [whole for whole in wholes if whole is not None]
    if metric is Metric.WHOLE_RUN or len(known) < len(wholes):
        return metric, ""
    batches = sorted({whole.batch for whole in known})
    if len(batches) > 1:
        why = f"the largest batches differ ({', '.join(map(str, batches))})"
    elif not all(whole.filled for whole in known):
        why = f"the batch was never full (at most {batches[0]} at once)"
    else:
        return metric, ""
    if metric is Metric.STEP_TIME:
        raise UsageError(f"{why}, so steps of {baseline.name} and {other.name} are not alike; leave --metric out")
    return Metric.WHOLE_RUN, f"compared over the whole run, for {why}"


def _by_runs(
    first: Sequence[Run], second: Sequence[Run], metric: Metric, order: Order, *, draws: bool
) -> tuple[Interval, int | None]:
    """The log ratio of repetitions, and how many of them would tell an effect of its size."""
    if order is not Order.UNTIMED:
        first, second = in_time_order(first), in_time_order(second)
    logs = [np.log([metric_value(run, metric) for run in runs]) for runs in (first, second)]
    counts = len(first), len(second)
    lie = f", {order}" if order is not Order.UNTIMED else ""
    if counts[0] == counts[1] and order is not Order.APART:
        difference = logs[1] - logs[0]
        found = mean_interval(list(difference), draws=draws)
        what = f"the spread of {counts[0]} draws of costs and noise" if draws else f"{counts[0]} repetitions{lie}"
        needed = None if draws else repetitions_needed(found.mean, float(difference.std(ddof=1)))
        return found.because(f"paired t on {what}"), needed
    found = welch_interval(list(logs[0]), list(logs[1]))
    error = math.hypot(*(values.std(ddof=1) / math.sqrt(len(values)) for values in logs))
    method = f"Welch's t on {counts[0]} and {counts[1]} repetitions{lie}"
    return found.because(method), repetitions_needed(found.mean, error * math.sqrt(min(counts)))


def _by_steps(first: Run, second: Run, metric: Metric) -> tuple[Interval, int | None]:
    """The log ratio of one run each, and how many times as many steps would tell an effect of its size."""
    cycles = min((run.cycles for run in (first, second) if run.cycles is not None), default=None)
    estimate = math.log(metric_value(second, metric) / metric_value(first, metric))
    if metric is not Metric.STEP_TIME and same_tokens(first, second):
        found = log_interval(estimate, paired_influence(first, second, metric), cycles=cycles)
        how = "paired by tokens emitted"
    else:
        found = log_interval(estimate, run_influence(first, metric), run_influence(second, metric), cycles=cycles)
        how = "unpaired"
    if found.half is None:
        return found, None
    few = estimate and found.half / abs(estimate) < math.sqrt(MAX_REPETITIONS)
    needed = math.ceil((found.half / estimate) ** 2) if few else None
    return found.because(f"one run each, {how}: {found.method}"), needed


def _served_otherwise(first: Arm, second: Arm) -> bool:
    """Whether arms of several workloads differ in them: then the mix may be what makes the difference."""
    served = [{run.workload for run in arm.runs} for arm in (first, second)]
    return None not in served[0] | served[1] and served[0] != served[1] and max(map(len, served)) > 1


def _have_whole(*arms: Arm) -> bool:
    return all(run.whole is not None for arm in arms for run in arm.runs)


def _log_mean(arm: Arm, metric: Metric) -> float:
    return float(np.log([metric_value(run, metric) for run in arm.runs]).mean())


def run_interval(run: Run) -> Interval:
    """Return one run's steady tok/s with the interval that its own steps give it; blind to drift between runs."""
    value = metric_value(run, HEADLINE)
    found = log_interval(math.log(value), run_influence(run, HEADLINE), cycles=run.cycles).mapped(math.exp)
    return replace(found, mean=value)

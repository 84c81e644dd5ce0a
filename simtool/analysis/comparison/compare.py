"""Is one arm really faster than another? A ratio with a 95 % interval, and the answer in words.

With repetitions the unit is the run: log ratios of paired runs (interleaved recordings, in the order given) under
Student's t; unpaired runs under Welch's. With one run each the unit is a block of consecutive steps, because steps
of a run are autocorrelated (Künsch 1989, moving-block bootstrap). Two greedy runs of the same requests emit the same
tokens, so their steps are first paired by tokens emitted. That interval cannot see drift between runs: a replay has
none, but a measurement has, so one live run each never settles anything here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from simtool.analysis.comparison.arms import Arm, Run, unlike_machines
from simtool.stats.interval import LEVEL, LEVEL_TEXT, Interval
from simtool.stats.power import MAX_REPETITIONS, repetitions_needed
from simtool.stats.student import mean_interval, welch_interval
from simtool.units import NS_PER_S

DRIFT_REMEDY = "runs drift; record 3 or more interleaved repetitions"
_RESAMPLES = 2000
_Number = TypeVar("_Number", np.int64, np.float64)


class Metric(StrEnum):
    """What is compared, both at full occupancy."""

    TOKENS_PER_S = "tokens_per_s"
    STEP_TIME = "step_time"


@dataclass(frozen=True)
class Comparison:
    """other / baseline, by name. ratio, low, high: the metric's ratio and its 95 % interval.

    needed: repetitions (or, with one run each, times as many steps) at which an effect of this size would be
    resolved; None: beyond any plan. drifts: the runs were measured, so that two of one setting differ by more than
    their steps tell. unused: runs left out, for the other arm has one only. caveat: what else differs, and so may be
    what made the difference.
    """

    metric: Metric
    baseline: str
    other: str
    ratio: float
    low: float
    high: float
    repetitions: int
    method: str
    needed: int | None
    drifts: bool
    unused: tuple[str, ...] = ()
    caveat: str = ""

    @property
    def resolved(self) -> bool:
        """Whether the interval leaves out "no difference", and sees all that could have made one."""
        return self._clear and not self._blind

    @property
    def _clear(self) -> bool:
        return not self.low <= 1.0 <= self.high

    @property
    def _blind(self) -> bool:
        return self.drifts and self.repetitions == 1

    @property
    def interval(self) -> str:
        """The interval of the change, in percent."""
        return f"{_percent(self.low)} to {_percent(self.high)}"

    @property
    def verdict(self) -> str:
        """One sentence: what can be said, and if nothing, what it would take; and what else may have done it."""
        return f"{self._claim}; {self.caveat}" if self.caveat else self._claim

    @property
    def _claim(self) -> str:
        interval = f"{LEVEL_TEXT} interval {self.interval}"
        if self.resolved:
            return f"{self.other} {self._effect()} than {self.baseline} ({interval})"
        if self._clear:
            return (
                f"cannot tell {self.other} from {self.baseline} by one run each: it {self._effect()} here "
                f"({interval} within the runs), but {DRIFT_REMEDY}"
            )
        return f"cannot tell {self.other} from {self.baseline}: the {interval} spans zero; {self._remedy()}"

    def _effect(self) -> str:
        size = f"{abs(self.ratio - 1) * 100:.1f} %"
        faster = (self.ratio > 1) == (self.metric is Metric.TOKENS_PER_S)
        if self.metric is Metric.TOKENS_PER_S:
            return f"gives {size} {'more' if faster else 'fewer'} tokens/s"
        return f"has {size} {'shorter' if faster else 'longer'} steps"

    def _remedy(self) -> str:
        if self.needed is None:
            return "no affordable number of repetitions would settle an effect this small"
        if self.repetitions == 1:
            return f"about {self.needed} times as many steps, or repetitions, would be needed"
        return f"about {max(self.needed - self.repetitions, 1)} more repetitions would be needed"


def metric_value(run: Run, metric: Metric) -> float:
    """Return tokens per second, or ns per step, of one run at full occupancy."""
    if metric is Metric.TOKENS_PER_S:
        return float(run.tokens.sum() * NS_PER_S / run.duration_ns.sum())
    return float(run.duration_ns.mean())


def compare(
    baseline: Arm, other: Arm, metric: Metric = Metric.TOKENS_PER_S, seed: int = 0, *, draws: bool = False
) -> Comparison:
    """Compare two arms; see the module's text for the method. The seed is the bootstrap's.

    draws: paired runs are draws of what is not known, such as refitted costs: their spread is the uncertainty itself,
    so the interval is of one draw, not of their mean, and more of them do not narrow it.
    """
    counts = len(baseline.runs), len(other.runs)
    if min(counts) < 2:
        return _compare_steps(baseline, other, metric, seed)
    first, second = (np.log([metric_value(run, metric) for run in arm.runs]) for arm in (baseline, other))
    found, deviation = _between_runs(first, second, draws=draws)
    ratio = found.mapped(math.exp)
    low, high = ratio.bounds or (ratio.mean, ratio.mean)
    return Comparison(
        metric,
        baseline.name,
        other.name,
        ratio.mean,
        low,
        high,
        min(counts),
        found.method,
        None if draws else repetitions_needed(found.mean, deviation),
        _drifts(baseline, other),
        caveat=unlike_machines(baseline, other),
    )


def _between_runs(first: NDArray[np.float64], second: NDArray[np.float64], *, draws: bool) -> tuple[Interval, float]:
    """The log ratio of two arms' runs, and the deviation of one (paired) difference."""
    counts = len(first), len(second)
    if counts[0] != counts[1]:
        deviation = math.hypot(*(values.std(ddof=1) / math.sqrt(len(values)) for values in (first, second)))
        method = f"Welch's t on {counts[0]} and {counts[1]} repetitions"
        return welch_interval(list(first), list(second)).because(method), deviation * math.sqrt(min(counts))
    found = mean_interval(list(second - first), draws=draws)
    what = f"the spread of {counts[0]} draws of costs and noise" if draws else f"{counts[0]} repetitions"
    return found.because(f"paired t on {what}"), float((second - first).std(ddof=1))


def block_length(values: NDArray[np.generic]) -> int:
    """Return the bootstrap's block: n^(1/3), longer while the series is still correlated, at most n / 4."""
    count = len(values)
    length = math.ceil(count ** (1 / 3))
    centred = values.astype(np.float64) - values.mean()
    power = float(centred @ centred)
    while power and length < count // 4 and float(centred[length:] @ centred[:-length]) / power > 2 / math.sqrt(count):
        length += 1
    return int(max(min(length, count // 4), 1))


def bootstrap(run: Run, metric: Metric, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the metric of resampled runs made of blocks of consecutive steps: [_RESAMPLES]."""
    count, length = len(run.tokens), block_length(run.duration_ns)
    starts = rng.integers(0, count - length + 1, size=(_RESAMPLES, math.ceil(count / length)))
    tokens, durations = (_block_sums(values, length)[starts].sum(axis=1) for values in (run.tokens, run.duration_ns))
    if metric is Metric.TOKENS_PER_S:
        return np.asarray(tokens * NS_PER_S / durations, np.float64)
    return np.asarray(durations / (starts.shape[1] * length), np.float64)


def metric_interval(run: Run, metric: Metric, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % interval of one run's metric, from resampling its own steps; blind to drift between runs."""
    values = bootstrap(run, metric, np.random.default_rng(seed))
    low, high = np.quantile(values, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)


def _compare_steps(baseline: Arm, other: Arm, metric: Metric, seed: int) -> Comparison:
    first, second = baseline.runs[0], other.runs[0]
    mean = math.log(metric_value(second, metric) / metric_value(first, metric))
    if metric is Metric.TOKENS_PER_S and first.workload is not None and first.workload == second.workload:
        resampled = _paired_log_ratios(first, second, np.random.default_rng(seed))
        resampled += mean - resampled.mean()
        method = "one run each, paired by tokens emitted"
    else:
        resampled = np.log(bootstrap(second, metric, np.random.default_rng((seed, 1))))
        resampled -= np.log(bootstrap(first, metric, np.random.default_rng((seed, 0))))
        method = "one run each, unpaired"
    low, high = np.quantile(resampled, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    half = float(high - low) / 2
    needed = math.ceil((half / mean) ** 2) if mean and half / abs(mean) < math.sqrt(MAX_REPETITIONS) else None
    method = f"{method}: bootstrap of {len(first.tokens)} and {len(second.tokens)} steps"
    unused = tuple(run.name for arm in (baseline, other) for run in arm.runs[1:])
    if unused:
        single = next(arm.name for arm in (baseline, other) if len(arm.runs) == 1)
        method = f"{method}; not used, for {single} has one run only: {', '.join(unused)}"
    return Comparison(
        metric,
        baseline.name,
        other.name,
        math.exp(mean),
        math.exp(float(low)),
        math.exp(float(high)),
        1,
        method,
        needed,
        _drifts(baseline, other),
        unused,
        unlike_machines(baseline, other),
    )


def _drifts(*arms: Arm) -> bool:
    return any(arm.origin != "modeled" for arm in arms)


def _paired_log_ratios(first: Run, second: Run, rng: np.random.Generator) -> NDArray[np.float64]:
    """Resample stretches of equal tokens, the same stretches of both runs: log throughput ratios [_RESAMPLES]."""
    stretches = max(min(len(first.tokens), len(second.tokens)) // 2, 1)
    tokens = np.linspace(0, min(first.tokens.sum(), second.tokens.sum()), stretches + 1)
    times = [np.diff(np.interp(tokens, *_progress(run))) for run in (first, second)]
    length = block_length(times[1] / times[0])
    starts = rng.integers(0, stretches - length + 1, size=(_RESAMPLES, math.ceil(stretches / length)))
    totals = [_block_sums(time, length)[starts].sum(axis=1) for time in times]
    return np.asarray(np.log(totals[0] / totals[1]), np.float64)


def _progress(run: Run) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Tokens emitted and ns spent by the end of each step, from zero."""
    return np.append(0.0, np.cumsum(run.tokens)), np.append(0.0, np.cumsum(run.duration_ns))


def _block_sums(values: NDArray[_Number], length: int) -> NDArray[_Number]:
    """Sums of all runs of `length` consecutive values: [n - length + 1]."""
    total = np.concatenate(([0], np.cumsum(values)))
    return np.asarray(total[length:] - total[:-length], values.dtype)


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %"

"""How good is the replay? Predicted beside measured, with the live runs' own interval, failures included."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations

import numpy as np
from scipy import stats

from simtool.analysis.fidelity.divergence import first_difference, mismatches
from simtool.analysis.metrics import Summary, summarise_trace
from simtool.errors import UsageError
from simtool.trace.rounding_ties import Judgement
from simtool.trace.trace import Trace

CONFIDENCE = 0.95

#: What is judged: name, unit ("ns" durations, "" counts and shares), and how it is read off a summary.
MEASURES: tuple[tuple[str, str, Callable[[Summary], float | None]], ...] = (
    ("output tok/s", "", lambda s: s.tokens_per_s),
    ("step time", "ns", lambda s: s.step.mean_ns),
    ("TPOT mean", "ns", lambda s: s.tpot.mean_ns),
    ("TPOT p50", "ns", lambda s: s.tpot.p50_ns),
    ("TPOT p99", "ns", lambda s: s.tpot.p99_ns),
    ("device idle/step", "ns", lambda s: s.device_idle_per_step_ns),
    ("acceptance rate", "", lambda s: s.acceptance_rate),
    ("acceptance length", "", lambda s: s.acceptance_length),
)


@dataclass(frozen=True)
class Judged:
    """One measure of one arm. low, high: the live mean's 95 % interval (Student's t over repetitions)."""

    arm: str
    measure: str
    unit: str
    predicted: float
    measured: float
    low: float
    high: float

    @property
    def error(self) -> float | None:
        """Signed relative error of the prediction; None where nothing was measured to divide by."""
        return self.predicted / self.measured - 1 if self.measured else None

    @property
    def inside(self) -> bool:
        """Whether the prediction lies in the live interval."""
        return self.low <= self.predicted <= self.high


@dataclass(frozen=True)
class JudgedPair:
    """Throughput of `other` over `baseline`. low, high: 95 % interval of the measured ratio, paired by repetition.

    predicted_low, predicted_high: the replay's own 95 % interval, from draws of its noise and of its refitted costs.
    """

    baseline: str
    other: str
    predicted: float
    predicted_low: float
    predicted_high: float
    measured: float
    low: float
    high: float

    @property
    def inside(self) -> bool:
        """Whether the predicted ratio lies in the measured interval."""
        return self.low <= self.predicted <= self.high

    @property
    def foreseen(self) -> bool:
        """Whether the measured ratio lies in the predicted interval."""
        return self.predicted_low <= self.measured <= self.predicted_high


@dataclass(frozen=True)
class Fidelity:
    """Everything a reader needs to trust a replay, or not.

    rows, mismatches: sequence-steps compared between live and replay, and those that differ in request, anchor,
    prefix length, accepted or emitted. repetitions: live runs per arm. first_differences: one a run that
    differs, in rows or tokens: where it first does, since all later steps may only follow from that, and by what gap.
    """

    repetitions: int
    rows: int
    mismatches: int
    judged: tuple[Judged, ...]
    pairs: tuple[JudgedPair, ...]
    first_differences: tuple[Judgement, ...] = ()

    @property
    def faults(self) -> list[str]:
        """The first differences that rounding does not explain."""
        return [difference.text for difference in self.first_differences if not difference.tie]

    def errors(self, measure: str) -> list[float]:
        """Return the signed relative errors of one measure, an arm each."""
        return [each.error for each in self.judged if each.measure == measure and each.error is not None]

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        judged = [asdict(each) | {"error": each.error, "inside": each.inside} for each in self.judged]
        pairs = [asdict(each) | {"inside": each.inside, "foreseen": each.foreseen} for each in self.pairs]
        counts = {"repetitions": self.repetitions, "rows": self.rows, "mismatches": self.mismatches}
        return {**counts, "first_differences": list(map(str, self.first_differences)), "judged": judged, "pairs": pairs}


def judge(
    live: Mapping[str, Sequence[Trace]],
    replayed: Mapping[str, Trace],
    noisy: Mapping[str, Sequence[Trace]],
) -> Fidelity:
    """Compare live repetitions of each arm with its replay.

    live: arm -> repetitions, interleaved, in order. replayed: arm -> the noise-free replay. noisy: arm -> replays
    that each draw noise and costs, for the predicted interval (may hold none). With one repetition only tokens are
    judged: an interval needs two.
    """
    repetitions = min(map(len, live.values()))
    measured = {arm: [summarise_trace(trace) for trace in traces] for arm, traces in live.items()}
    predicted = {arm: summarise_trace(trace) for arm, trace in replayed.items()}
    varied = {arm: [summarise_trace(trace) for trace in traces] for arm, traces in noisy.items()}
    compared = [mismatches(trace, replayed[arm]) for arm, traces in live.items() for trace in traces]
    return Fidelity(
        repetitions,
        sum(rows for rows, _ in compared),
        sum(wrong for _, wrong in compared),
        tuple(
            judged
            for arm in live
            for name, unit, read in MEASURES
            if (judged := _judge(arm, name, unit, read(predicted[arm]), [read(s) for s in measured[arm]]))
        ),
        tuple(_judge_pair(a, b, measured, predicted, varied) for a, b in combinations(live, 2) if repetitions > 1),
        tuple(
            difference
            for arm, traces in live.items()
            for trace in traces
            if (difference := first_difference(trace, replayed[arm]))
        ),
    )


def _judge(arm: str, name: str, unit: str, predicted: float | None, measured: Sequence[float | None]) -> Judged | None:
    values = [value for value in measured if value is not None]
    if predicted is None or len(values) < 2:
        return None
    mean, low, high = mean_interval(values)
    return Judged(arm, name, unit, predicted, mean, low, high)


def _judge_pair(
    baseline: str,
    other: str,
    measured: Mapping[str, Sequence[Summary]],
    predicted: Mapping[str, Summary],
    varied: Mapping[str, Sequence[Summary]],
) -> JudgedPair:
    def ratios(first: Sequence[Summary], second: Sequence[Summary]) -> list[float]:
        return [math.log(speed_of(b) / speed_of(a)) for a, b in zip(first, second, strict=False)]

    mean, low, high = (math.exp(value) for value in mean_interval(ratios(measured[baseline], measured[other])))
    point = speed_of(predicted[other]) / speed_of(predicted[baseline])
    reach = math.exp(_reach(ratios(varied.get(baseline, ()), varied.get(other, ()))))
    return JudgedPair(baseline, other, point, point / reach, point * reach, mean, low, high)


def _reach(draws: Sequence[float]) -> float:
    """Half the 95 % interval of one more draw; 0 where fewer than two tell nothing of their spread."""
    if len(draws) < 2:
        return 0.0
    quantile = stats.t.ppf((1 + CONFIDENCE) / 2, len(draws) - 1)
    return float(quantile * np.std(draws, ddof=1) * math.sqrt(1 + 1 / len(draws)))


def speed_of(summary: Summary) -> float:
    """Return output tokens per second; raises UsageError where a run emitted none."""
    speed = summary.tokens_per_s
    if not speed:
        raise UsageError("a run emitted no tokens, so there is nothing to judge; record a longer one")
    return speed


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of two or more values and the ends of its 95 % interval (Student's t)."""
    mean = float(np.mean(values))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * stats.sem(values))
    return mean, mean - half, mean + half

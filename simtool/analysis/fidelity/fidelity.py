"""How good is the replay? Predicted beside measured, with the live runs' own interval, failures included."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations

from simtool.analysis.comparison.headline import BASELINE, HEADLINE, Metric
from simtool.analysis.comparison.noise import NO_LOAD, ForeignLoad, foreign_load
from simtool.analysis.divergence import Divergence, first_divergence, mismatches
from simtool.analysis.metrics import Summary, summarise_trace
from simtool.errors import UsageError
from simtool.stats.interval import Interval
from simtool.stats.student import mean_interval
from simtool.trace.trace import Trace

#: What is judged: name, unit ("ns" durations, "" counts and shares), and how it is read off a summary.
MEASURES: tuple[tuple[str, str, Callable[[Summary], float | None]], ...] = (
    ("steady tok/s", "", lambda s: s.steady_tokens_per_s),
    ("whole-run tok/s", "", lambda s: s.tokens_per_s),
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
    """One measure of one arm: predicted by the replay, and the live mean over repetitions with its interval."""

    arm: str
    measure: str
    unit: str
    predicted: float
    live: Interval

    @property
    def error(self) -> float | None:
        """Signed relative error of the prediction; None where nothing was measured to divide by."""
        return self.predicted / self.live.mean - 1 if self.live.mean else None

    @property
    def inside(self) -> bool:
        """Whether the prediction lies in the live interval."""
        return self.live.contains(self.predicted)

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        named = {"arm": self.arm, "measure": self.measure, "unit": self.unit}
        live = {"measured": self.live.mean, "low": self.live.low, "high": self.live.high}
        return {**named, "predicted": self.predicted, **live, "error": self.error, "inside": self.inside}


@dataclass(frozen=True)
class JudgedPair:
    """Throughput of `other` over `baseline`, by the headline metric (`comparison.headline`).

    metric: whole-run tok/s where a run was never full, or full at another size. replayed: with the replay's own
    interval, from draws of its noise and of its refitted costs. live: paired by repetition.
    """

    baseline: str
    other: str
    metric: Metric
    replayed: Interval
    live: Interval

    @property
    def inside(self) -> bool:
        """Whether the predicted ratio lies in the measured interval."""
        return self.live.contains(self.replayed.mean)

    @property
    def foreseen(self) -> bool:
        """Whether the measured ratio lies in the predicted interval."""
        return self.replayed.contains(self.live.mean)

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "baseline": self.baseline,
            "other": self.other,
            "metric": self.metric,
            "predicted": self.replayed.mean,
            "predicted_low": self.replayed.low,
            "predicted_high": self.replayed.high,
            "measured": self.live.mean,
            "low": self.live.low,
            "high": self.live.high,
            "inside": self.inside,
            "foreseen": self.foreseen,
        }


@dataclass(frozen=True)
class Fidelity:
    """Everything a reader needs to trust a replay, or not.

    rows, mismatches: sequence-steps compared between live and replay, and those that differ in request, anchor,
    prefix length, accepted or emitted. repetitions: live runs per arm. first_differences: one a run that
    differs, in rows or tokens: where it first does, since all later steps may only follow from that, and by what gap.
    load: what other programs took of the machine during the live runs.
    """

    repetitions: int
    rows: int
    mismatches: int
    judged: tuple[Judged, ...]
    pairs: tuple[JudgedPair, ...]
    first_differences: tuple[Divergence, ...] = ()
    load: ForeignLoad = NO_LOAD

    @property
    def faults(self) -> list[str]:
        """The first differences that rounding does not explain."""
        return [str(difference) for difference in self.first_differences if not difference.tie]

    def errors(self, measure: str) -> list[float]:
        """Return the signed relative errors of one measure, an arm each."""
        return [each.error for each in self.judged if each.measure == measure and each.error is not None]

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        judged, pairs = [each.to_dict() for each in self.judged], [each.to_dict() for each in self.pairs]
        counts = {"repetitions": self.repetitions, "rows": self.rows, "mismatches": self.mismatches}
        counts |= {"trustworthy": self.load.trustworthy}
        told = {
            "first_differences": list(map(str, self.first_differences)),
            "divergences": [asdict(each) for each in self.first_differences],
        }
        return {**counts, **told, "judged": judged, "pairs": pairs}


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
    arms = sorted(live, key=lambda arm: arm != BASELINE)  # the headline's baseline first, so that others are over it
    return Fidelity(
        repetitions=repetitions,
        rows=sum(rows for rows, _ in compared),
        mismatches=sum(wrong for _, wrong in compared),
        judged=tuple(
            judged
            for arm in live
            for name, unit, read in MEASURES
            if (judged := _judge(arm, name, unit, read(predicted[arm]), [read(s) for s in measured[arm]]))
        ),
        pairs=tuple(
            _judge_pair(a, b, measured, predicted, varied) for a, b in combinations(arms, 2) if repetitions > 1
        ),
        first_differences=tuple(
            difference
            for arm, traces in live.items()
            for trace in traces
            if (difference := first_divergence(trace, replayed[arm]))
        ),
        load=foreign_load(trace for traces in live.values() for trace in traces),
    )


def _judge(arm: str, name: str, unit: str, predicted: float | None, measured: Sequence[float | None]) -> Judged | None:
    values = [value for value in measured if value is not None]
    if predicted is None or len(values) < 2:
        return None
    return Judged(arm=arm, measure=name, unit=unit, predicted=predicted, live=mean_interval(values))


def _judge_pair(
    baseline: str,
    other: str,
    measured: Mapping[str, Sequence[Summary]],
    predicted: Mapping[str, Summary],
    varied: Mapping[str, Sequence[Summary]],
) -> JudgedPair:
    metric = _pair_metric([*measured[baseline], *measured[other], predicted[baseline], predicted[other]])

    def ratios(first: Sequence[Summary], second: Sequence[Summary]) -> list[float]:
        pairs = zip(first, second, strict=False)
        return [math.log(speed_of(b, metric) / speed_of(a, metric)) for a, b in pairs]

    live = mean_interval(ratios(measured[baseline], measured[other]))
    point = math.log(speed_of(predicted[other], metric) / speed_of(predicted[baseline], metric))
    drawn = ratios(varied.get(baseline, ()), varied.get(other, ()))
    reach = mean_interval(drawn, draws=True).half if len(drawn) > 1 else 0.0
    replayed = Interval.around(point, reach or 0.0, f"t on the spread of {len(drawn)} draws about the fitted costs")
    return JudgedPair(
        baseline=baseline,
        other=other,
        metric=metric,
        replayed=replayed.mapped(math.exp),
        live=live.mapped(math.exp),
    )


def _pair_metric(summaries: Sequence[Summary]) -> Metric:
    alike = len({summary.full_batch for summary in summaries}) == 1 and all(summary.full for summary in summaries)
    return HEADLINE if alike else Metric.WHOLE_RUN


def speed_of(summary: Summary, metric: Metric = HEADLINE) -> float:
    """Return steady or whole-run tokens per second; raises UsageError where a run has none."""
    speed = summary.steady_tokens_per_s if metric is Metric.TOKENS_PER_S else summary.tokens_per_s
    if not speed:
        raise UsageError("a run emitted no tokens, so there is nothing to judge; record a longer one")
    return speed

"""Documents of the commands about costs and replays."""

from __future__ import annotations

from typing import Literal

from simtool.cli.documents.parts import ComparisonRecord, IntervalRecord, Metric, OthersShare, RunRecord
from simtool.cli.documents.record import JsonDocument, Record, Table

Intervals = dict[str, dict[str, IntervalRecord | None]]


class AgainstRunRecord(Record):
    """The order that the trace's own run had, replayed: tokens/s and the mean step, ns, at full occupancy, of both."""

    placement: str
    recorded_tokens_per_s: float
    replayed_tokens_per_s: float
    recorded_step_ns: float
    replayed_step_ns: float


class ReplayDocument(JsonDocument, tag="simtool.replay/1"):
    """runs: a replay each, placement by placement, seed by seed; the baseline's are among them, asked for or not.

    differences: every other placement against the baseline. live: what live runs in this setting showed of them against
    static; empty: nobody ran them. what_ifs: each placement with the changes of --set against
    itself without. without: the runs without those changes. intervals: placement -> figure -> mean over seeds. changes:
    the same of the change against the baseline, paired by seed; both empty for one seed. refused: why placements were
    left out. against_run: null where that order is not among the placements, or something else is not as it ran.
    """

    runs: list[RunRecord]
    baseline: str | None
    differences: list[ComparisonRecord]
    live: list[ComparisonRecord]
    what_ifs: list[ComparisonRecord]
    without: list[RunRecord]
    intervals: Intervals
    changes: Intervals
    refused: list[str]
    against_run: AgainstRunRecord | None


class GroupRecord(Record):
    """Placements that may be compared: of one origin and one batch shape. headline: the answer. copies: traces left
    out, for they hold what another does.
    """

    group: str
    baseline: str
    headline: str
    told: bool
    trustworthy: bool
    others_share: OthersShare
    copies: list[str]
    comparisons: list[ComparisonRecord]


class CompareDocument(JsonDocument, tag="simtool.compare/1"):
    """findings: why the traces are not alike enough to compare; empty is well. runs: every trace's figures."""

    groups: list[GroupRecord]
    findings: list[str]
    runs: list[RunRecord]


class SizeRecord(Record):
    """Repetitions of each that tell a difference. difference: as a share; null: more than anybody plans."""

    difference: float
    paired: int | None
    unpaired: int | None


class PlanRecord(Record):
    """observed: the difference seen, a share. paired_spread: deviation of a pair's log ratio; null: they do not pair.

    spreads: of each one's log values. at_least: the counts are lower bounds, for one run each was given.
    """

    metric: Metric
    baseline: str
    other: str
    repetitions: tuple[int, int]
    observed: float
    paired_spread: float | None
    spreads: tuple[float, float]
    sizes: list[SizeRecord]
    at_least: bool


class PowerDocument(JsonDocument, tag="simtool.power/1"):
    """chance: with which a difference is to be told."""

    chance: float
    trustworthy: bool
    others_share: OthersShare
    plans: list[PlanRecord]


class QualityRecord(Record):
    """n: observations, their times in ns. r2: share of their variance explained. held_out_error: mean |error| on
    blocks kept out of the fit, a share of their mean; held_out_bias: signed. null: too few.
    """

    n: int
    mean_ns: float
    p50_ns: float
    p99_ns: float
    r2: float | None
    held_out_error: float | None
    held_out_bias: float | None


class CostRecord(Record):
    """What one piece of work costs: intercept and slopes, ns. step: prefill or decode; empty: between steps. ranges:
    the sizes seen. quality: null for a cost that was not measured.
    """

    step: Literal["prefill", "decode", ""]
    lane: Literal["host", "device"]
    what: str
    intercept_ns: float
    per_feature_ns: dict[str, float]
    ranges: dict[str, tuple[float, float]]
    quality: QualityRecord | None


class ProvenanceRecord(Record):
    """Where costs come from. traces: name, hash, origin, placement and concurrency of each. changes: what-ifs made to
    the costs. sources: of figures that were not measured. proxies: op -> the similar op that lends its cost, in words.
    """

    command: str
    created: str
    simtool_version: str
    traces: list[Table]
    changes: list[str]
    warnings: list[str]
    sources: list[Table]
    proxies: dict[str, str]


class ReliabilityRecord(Record):
    """A bin of forecasts: how many, their mean, and the share of them that came true."""

    count: int
    forecast: float
    accepted: float


class PositionQualityRecord(Record):
    """Forecasts of "the first `position` drafts are accepted" against what happened, in `blocks` that offered as many.

    auc: null where only one outcome was seen. ece: expected calibration error over 15 equal bins. reliability: bins
    that are not empty, a tenth wide.
    """

    position: int
    blocks: int
    accepted: float
    forecast: float
    auc: float | None
    brier: float
    ece: float
    reliability: list[ReliabilityRecord]


class ConfidenceRecord(Record):
    """Temperatures by position, and the confidence as it is (before) and at them (after), on the blocks of `trace`.

    held_out_before, held_out_after: ECE, mean over positions, on requests that a fit to the others did not see.
    """

    trace: str
    temperatures: list[float]
    held_out_before: float
    held_out_after: float
    before: list[PositionQualityRecord]
    after: list[PositionQualityRecord]


class CalibrateDocument(JsonDocument, tag="simtool.calibrate/1"):
    """profile: the file written. predictor: of validate time, for the controller. held_out_error: of a decode step,
    every work's error weighted by its time; null where none was measured. confidence: null without --confidence.
    """

    profile: str
    held_out_error: float | None
    predictor: Table | None
    provenance: ProvenanceRecord
    costs: list[CostRecord]
    confidence: ConfidenceRecord | None


class FigureCounts(Record):
    """How many figures are of which kind."""

    published: int
    derived: int
    assumed: int


class ProfileDocument(JsonDocument, tag="simtool.profile/1"):
    """profile: the file written."""

    profile: str
    figures: FigureCounts
    provenance: ProvenanceRecord


class ReportDocument(JsonDocument, tag="simtool.report/1"):
    """report: the page written. answer: its headlines, as `compare` says them."""

    report: str
    answer: list[str]
    caveats: list[str]


class DivergenceRecord(Record):
    """Where a live run first differs from its replay. tie: a logits gap that rounding decides explains it."""

    run: str
    step: int
    found: str
    tie: bool


class JudgedRecord(Record):
    """One figure of one placement, replayed and live. unit: ns or empty. error: a share. inside: the live interval
    holds the replay's figure.
    """

    arm: str
    measure: str
    unit: str
    predicted: float
    measured: float
    low: float | None
    high: float | None
    error: float | None
    inside: bool


class JudgedPairRecord(Record):
    """One placement over another, by the metric. inside: the live interval holds the replay's figure; foreseen: the
    replay's holds the live one.
    """

    baseline: str
    other: str
    metric: Metric
    predicted: float
    predicted_low: float | None
    predicted_high: float | None
    measured: float
    low: float | None
    high: float | None
    inside: bool
    foreseen: bool


class ValidateDocument(JsonDocument, tag="simtool.validate/1"):
    """rows: sequence-steps compared, of which mismatches differ. setting: all that a published table must say."""

    setting: Table
    repetitions: int
    rows: int
    mismatches: int
    trustworthy: bool
    first_differences: list[str]
    divergences: list[DivergenceRecord]
    judged: list[JudgedRecord]
    pairs: list[JudgedPairRecord]


class SpreadRecord(Record):
    """How far repetitions of one arm are apart, as coefficients of variation: the least and the most that is told."""

    low: float
    high: float


class PredictionRecord(Record):
    """A published figure and what is predicted for it from others, low to high. gain: a ratio of two arms, less 1; else
    a figure of one arm. spread: of repetitions of one arm; null: none is published. verdict: how the prediction fares.
    """

    source: str
    setting: str
    figure: str
    low: float
    high: float
    published: float
    spread: SpreadRecord | None
    gain: bool
    verdict: str
    sign_holds: bool | None


class PublishedDocument(JsonDocument, tag="simtool.validate-published/1"):
    """What `validate --published` prints: every prediction beside what was published."""

    headline: str
    predictions: list[PredictionRecord]


class ChangeRecord(Record):
    """What one change is worth under one placement, over the same placement as it is. subject: the op that would take
    no time. draft_ms: what the controller would be told.
    """

    lever: Literal["draft_ms", "free_op"]
    placement: str
    subject: str
    draft_ms: float | None
    worth: ComparisonRecord


class ToldRecord(Record):
    """What a placement gives over the baseline once its controller is told what a draft takes: gain, a share, modeled.

    origin: of the difference untold, on which it rests.
    """

    placement: str
    draft_ms: float
    gain: float
    origin: Literal["live", "modeled"]


class TurnRecord(Record):
    """Where along an axis the lead changes hands: ns of a decision or a draft, or the share lost; null: nowhere between
    low and high. above: the other leads at larger values. leads: which.
    """

    axis: Literal["decide", "draft", "stale_loss"]
    today: float
    low: float
    high: float
    value: float | None
    above: bool
    leads: str


class BoundRecord(Record):
    """The most that any placement that prunes could give: the verdict is then of one that knows what will be accepted.

    rows: how the cost of a verified row is known. fixed: drafts of each sequence -> tokens/s over the baseline's where
    every step verifies so many. step_ns: the baseline's mean full step; saved_ns: what the most would take off it.
    """

    rows: Literal["fitted", "of_sequences", "unknown"]
    step_ns: float
    saved_ns: float
    fixed: dict[int, float]


class AdviseDocument(JsonDocument, tag="simtool.advise/1"):
    """use: the placement to turn on; null: none. told: whether that can be told. verdict: what it rests on.

    origin: live or modeled. measured_in: the page that its live runs stand on; empty: they are those of the traces.
    candidates: all, of that origin. modeled: all, by replays. with_recorded_predictor: again with the controller's
    predictor that the trace was recorded with, where that is another. live_once: by one live run of each, which settle
    nothing. disagree: what was measured and what was computed, or the two predictors, say different things. draft_told:
    null where that is worth nothing. turns: empty where turns_withheld says why they are not told. bound: only the most
    that any could give, where costs or confidences tell no placement apart; else null.
    """

    trace: str
    answer: str
    use: str | None
    told: bool
    origin: Literal["live", "modeled"]
    measured_in: str
    disagree: bool
    verdict: ComparisonRecord
    candidates: list[ComparisonRecord]
    live_once: list[ComparisonRecord]
    modeled: list[ComparisonRecord]
    with_recorded_predictor: list[ComparisonRecord]
    changes: list[ChangeRecord]
    draft_told: ToldRecord | None
    turns: list[TurnRecord]
    turns_withheld: str
    warnings: list[str]
    bound: BoundRecord | None = None

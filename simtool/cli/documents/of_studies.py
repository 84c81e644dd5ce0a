"""Documents of the commands that take many replays. All their figures are modeled: origin is "replayed"."""

from __future__ import annotations

from typing import Literal

from simtool.cli.documents.parts import ComparisonRecord, IntervalRecord
from simtool.cli.documents.record import JsonDocument, Record, Table

Replayed = Literal["replayed"]


class GainRecord(Record):
    """One placement at one point of the grid. gain: of steady tok/s over the baseline's, a share, with its interval;
    low and high are null with one replay each. gain_whole_run: of whole-run tok/s. live: what live runs at this point
    showed of it against static; null: nobody ran it.
    """

    trace: str
    profile: str
    sl: int
    concurrency: int
    stale_loss: float
    placement: str
    tokens_per_s: float
    step_ns: float
    gain: float
    gain_low: float | None
    gain_high: float | None
    gain_whole_run: float
    live: ComparisonRecord | None


class SweepDocument(JsonDocument, tag="simtool.sweep/1"):
    """table: the file written. basis: what is averaged and what intervals cover. failed: points without a row.

    answer: the sentence that the terminal opens with.
    """

    origin: Replayed
    table: str
    basis: str
    baseline: str
    answer: str
    gains: list[GainRecord]
    warnings: list[str]
    failed: list[str]


class RankedRecord(Record):
    """One of the best orders. gain: against the baseline, which its interval does not know to be the best of many."""

    placement: Table
    tokens_per_s: float
    step_ns: float
    gain: ComparisonRecord
    tokens_change: float
    step_change: float
    why: str


class SearchedRecord(Record):
    """One concurrency. enumerated: legal orders; replayed: of them. not_tried: why some were not. live: what live runs
    in this setting showed of named orders against static; empty: nobody ran them.
    """

    concurrency: int
    enumerated: int
    replayed: int
    not_tried: list[str]
    baseline: str
    baseline_tokens_per_s: float
    best: list[RankedRecord]
    live: list[ComparisonRecord]
    warnings: list[str]


class SearchDocument(JsonDocument, tag="simtool.search/1"):
    """One entry a concurrency."""

    origin: Replayed
    basis: str
    searched: list[SearchedRecord]


class PathRecord(Record):
    """One op on one lane: how much of its own time is on the critical path of the mean full-batch step, before and
    after; at most a bar's own_ns of tornado. lane: empty for the latencies between ops, all together.
    """

    op: str
    lane: str
    before_ns: float
    after_ns: float


class MeanStepRecord(Record):
    """A mean step at the fitted costs without noise. full_ns: of the full batch, as every study has it; every_ns: of
    all decode steps, as replay and compare have it.
    """

    full_ns: float
    every_ns: float


class WhyDocument(JsonDocument, tag="simtool.why/1"):
    """difference: the placement's tokens/s over the baseline's. tokens_change, step_change: of the mean full step.

    by_pruning, by_age: the parts of tokens_change, which multiply to it; null where no older confidence is read. path:
    what changes by a thousandth of the step at least, what left most first. before, after: the steps it is the path of.
    live: what live runs in this setting showed of either against static; empty: nobody ran them.
    """

    origin: Replayed
    basis: str
    difference: ComparisonRecord
    live: list[ComparisonRecord]
    tokens_change: float
    step_change: float
    by_pruning: float | None
    by_age: float | None
    path: list[PathRecord]
    before: MeanStepRecord
    after: MeanStepRecord
    warnings: list[str]


class BarRecord(Record):
    """What one piece of a step is worth, ns of the mean full-batch step; negative: lost. own_ns: what it takes itself.

    stream: host, or the device stream that runs it. free_ns: gained if it took no time, of which follows_ns is not its
    own. halved_ns, tenth_ns: if it took half, a tenth less. unsynced_ns: if it did not block; null where it does not.
    moved_ns: in its best other place, moved_to; null: it has none.
    """

    name: str
    lane: Literal["host", "device"]
    stream: str
    own_ns: float
    tenth_ns: float
    free_ns: float
    follows_ns: float
    halved_ns: float
    unsynced_ns: float | None
    moved_ns: float | None
    moved_to: Table | None


class LeverRecord(Record):
    """A change that gains something. gain: of tokens/s, a share. what, name, action: in words. options: of `simtool
    replay`, to try it on; empty: it has none.
    """

    kind: Literal["shorter", "moved", "unblocked", "told"]
    gain: float
    what: str
    name: str
    action: str
    options: str
    on_host: bool


class DraftToldRecord(Record):
    """What it is worth to tell the controller of `placement` what a draft costs, over the document's placement.

    over_untold: over the same placement. over_static: over static, by replays alone. live: what live runs showed of the
    placement, untold, over static; null: nobody ran it. gain: over static, a share, on the live difference where that
    is known.
    """

    placement: str
    draft_ms: float
    worth: ComparisonRecord
    over_untold: ComparisonRecord
    over_static: ComparisonRecord
    live: ComparisonRecord | None
    gain: float


class TornadoDocument(JsonDocument, tag="simtool.tornado/1"):
    """placement: the one asked for, else the fastest. bars, levers: the largest first; a lever is a piece that takes a
    tenth less, has another place or does not block, or the controller told what a draft costs. draft_told: null where
    it is told already. step_ns: the mean full-batch step.
    """

    origin: Replayed
    basis: str
    placement: str
    concurrency: int
    step_ns: float
    levers: list[LeverRecord]
    draft_told: DraftToldRecord | None
    bars: list[BarRecord]
    warnings: list[str]


class BreakEvenRecord(Record):
    """One point. affordable, lost: shares of the tokens of a step. pays: the lag gives more tokens/s."""

    concurrency: int
    decision_ns: int
    affordable: IntervalRecord
    lost: IntervalRecord
    pays: bool


class BreakEvenDocument(JsonDocument, tag="simtool.break-even/1"):
    """A lag placement against this-step, one entry a concurrency and cost of a decision. live: concurrency -> what live
    runs showed of both against static, where there were any.
    """

    origin: Replayed
    basis: str
    placement: str
    points: list[BreakEvenRecord]
    live: dict[str, list[ComparisonRecord]]
    warnings: list[str]


class LagRecord(Record):
    """One lag and one kind of prompt ("all": every request). loss: share of emitted tokens per sequence-step lost
    against lag 0. offered_at, accepted_at: sequence-steps that offered, accepted their first, second, ... draft.
    unfresh: sequence-steps at full width for want of a confidence old enough.
    """

    lag: int
    kind: str
    requests: int
    sequence_steps: int
    unfresh: int
    acceptance_length: float
    acceptance_rate: float | None
    loss: IntervalRecord
    offered_at: list[int]
    accepted_at: list[int]


class PersistenceRecord(Record):
    """Blocks so many steps apart: how alike their forecasts are, and how well the older one ranks the newer block's
    outcomes (AUC by position).
    """

    distance: int
    pairs: int
    correlation: float | None
    by_position: list[float | None]
    auc: list[float | None]


class LagsDocument(JsonDocument, tag="simtool.lags/1"):
    """effects: one a lag and kind of prompt. persistence: of confidence, one a distance in steps."""

    origin: Replayed
    basis: str
    effects: list[LagRecord]
    persistence: list[PersistenceRecord]
    warnings: list[str]


class WhatIfDocument(JsonDocument, tag="simtool.what-if/1"):
    """page: the file written. answer: the sentence that it opens with."""

    page: str
    answer: str


class AnswersDocument(JsonDocument, tag="simtool.answers/1"):
    """answer: the page's first sentence. written: every file."""

    answer: str
    written: list[str]

"""Records that several documents share."""

from __future__ import annotations

from typing import Literal

from simtool.cli.documents.record import Record, Table

Origin = Literal["live", "replayed", "imported", "synthetic"]
Metric = Literal["tokens_per_s", "whole_run_tokens_per_s", "step_time"]


class IntervalRecord(Record):
    """An estimate with its interval. low, high: null where nothing can be said; method then says why, else how."""

    mean: float
    low: float | None
    high: float | None
    method: str
    level: float


class OthersShare(Record):
    """What other programs took of all cores' time while live runs were recorded, a share; null: not known."""

    mean: float | None
    worst: float | None


class ComparisonRecord(Record):
    """One placement against the baseline. ratio: its metric over the baseline's, from low to high at `level`.

    over: what the interval ranges over, the word that stands beside it in the terminal (statistics.md). method: how it
    was made, or why there is none. resolved: whether it leaves out "no difference" and sees all that could make one.
    repetitions: runs of each. needed: repetitions (with one run each: times as many steps) that would resolve it; null:
    not known.
    drifts: measured, so that two runs of one setting differ by more than their steps tell. order: how measured
    repetitions lie in time. unused: runs left out. caveat: what else differs. instead: why another metric is compared
    than was asked for. other_metric, other_ratio: the other of steady and whole-run tok/s. disagrees: that one points
    the other way. trustworthy: no run had more foreign load than the noise gate allows. extrapolated: how far costs
    were priced beyond the calibrated sizes, and how far off such costs were; empty: they were not. verdict: all that as
    a sentence.
    """

    metric: Metric
    baseline: str
    other: str
    ratio: float
    low: float | None
    high: float | None
    level: float
    over: Literal["steps", "runs", "seeds", "draws"]
    method: str
    resolved: bool
    repetitions: int
    needed: int | None
    drifts: bool
    order: str
    unused: list[str]
    caveat: str
    instead: str
    other_metric: Metric | None
    other_ratio: float | None
    disagrees: bool
    trustworthy: bool
    others_share: OthersShare
    extrapolated: str
    verdict: str


class RunRecord(Record):
    """One trace's figures. Times in ns; null where there is none, such as TPOT of requests of one token.

    trace: its folder's name. outcomes: of a replay, how far they are the recorded ones. steady: over decode steps at
    full occupancy. acceptance_length: accepted + 1, mean of sequence-steps; emitted_length: tokens really emitted.
    queued, ttft: what requests waited. policy_counters: how often the policy fell back on something; null where xLLM's
    controller decides, or nothing does. The keys from anchors_looked_up on are null but for a replay.
    """

    trace: str
    origin: Origin
    placement: str
    steady_tokens_per_s: float | None
    whole_run_tokens_per_s: float | None
    tpot_mean_ns: float | None
    tpot_p50_ns: float | None
    tpot_p99_ns: float | None
    acceptance_rate: float | None
    acceptance_length: float | None
    emitted_length: float | None
    step_ns: float | None
    device_idle_per_step_ns: float | None
    host_exposed_per_step_ns: float | None
    queued_p50_ns: float | None
    queued_p99_ns: float | None
    ttft_p50_ns: float | None
    ttft_p99_ns: float | None
    outcomes: str | None = None
    policy_counters: dict[str, int] | None = None
    anchors_looked_up: int | None = None
    anchors_substituted: int | None = None
    workload: Table | str | None = None
    bootstrap: Table | str | None = None
    synthetic: Table | str | None = None
    seed: int | None = None
    warnings: tuple[str, ...] = ()

"""The best legal host orders of a trace: every order replayed, the best few again with noise, and why they win."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.comparison import Comparison
from simtool.analysis.critical_path.critical_path import critical_path, mean_by_op
from simtool.analysis.critical_path.totals import executors_of
from simtool.analysis.metrics import decode_steps, full_occupancy
from simtool.errors import UsageError
from simtool.replay.caveats import Caveats
from simtool.replay.replay import replay
from simtool.step.ops import priced_name
from simtool.step.order_search import legal_orders, syncing_where_run
from simtool.step.placement import BUILT_IN, Placement
from simtool.study.runner import Cell, Progress, Setting, arm_of, caveats_of, mean, run_cells, silent, simulator_of
from simtool.units import format_ns

BASELINE = BUILT_IN["lag-overlap"]
_TELLING_SHARE = 0.001  # of the step: a smaller change on the path explains nothing


@dataclass(frozen=True)
class OrderCandidates:
    """Orders to try. enumerated: legal ones before pruning. unpriced: why some cannot be replayed.

    baseline: what their gains are measured against.
    """

    enumerated: int
    placements: tuple[Placement, ...]
    unpriced: tuple[str, ...] = ()
    baseline: Placement = BASELINE


@dataclass(frozen=True)
class RankedOrder:
    """One of the best orders, against lag-overlap. gain: of its tokens/s, with the interval.

    tokens_change, step_change: of its tokens per step and its step time, as shares; their quotient is the gain. why:
    both in words, then what left the critical path and what joined it.
    """

    placement: Placement
    tokens_per_s: float
    step_ns: float
    gain: Comparison
    tokens_change: float
    step_change: float
    why: str


@dataclass(frozen=True)
class SearchResult:
    """The best orders at one concurrency, best first. screened: how many were replayed.

    The best of many is flattered: it was chosen by the replay that its gain is then judged by, and its interval does
    not make up for the choice.
    """

    concurrency: int
    screened: int
    baseline_tokens_per_s: float
    best: tuple[RankedOrder, ...]
    caveats: Caveats = field(default_factory=Caveats)


def order_candidates(setting: Setting, lags: Sequence[int | None], sync: Sequence[str] = ()) -> OrderCandidates:
    """Return the legal orders of these lags that the profile can price.

    sync: ops that block wherever an order runs them (see `with_sync`), in the baseline too. Raises UsageError for one
    that no order runs, PlacementError for one that cannot.
    """
    enumerated, priced = 0, list[Placement]()
    unpriced: dict[str, list[str]] = {}
    for lag in lags:
        orders = legal_orders(lag, sync)
        enumerated += orders.enumerated
        for placement in orders.placements:
            missing = _missing(setting, placement)
            if missing:
                unpriced.setdefault(missing, []).append(placement.name)
            else:
                priced.append(placement)
    notes = [
        f"{len(names)} orders not tried: no cost of {op!r} in {setting.profile.name}" for op, names in unpriced.items()
    ]
    synced = {op.name for placement in priced for op in placement.ever_runs() if op.syncs}
    for text in sync:
        if not synced.intersection(text.split("|")):
            raise UsageError(
                f"{text!r} syncs in none of the orders; expected an op that they run and that launches work"
            )
    return OrderCandidates(enumerated, tuple(priced), tuple(notes), syncing_where_run(BASELINE, sync))


def search(
    setting: Setting, tried: OrderCandidates, *, top: int, processes: int, progress: Progress = silent
) -> SearchResult:
    """Replay every candidate without noise at the fitted costs, the `top` best and lag-overlap with the seeds."""
    screen = replace(setting, seeds=())
    jobs = [(screen, placement) for placement in tried.placements]
    cells = [found[0] for found in run_cells(jobs, processes=processes, progress=progress)]
    ranked = sorted(zip(cells, tried.placements, strict=True), key=lambda pair: -pair[0].tokens_per_s)
    best = [placement for _, placement in ranked[:top]]
    finals = run_cells([(setting, placement) for placement in (tried.baseline, *best)], processes=processes)
    found = [
        _found(setting, tried.baseline, placement, finals[0], mine)
        for placement, mine in zip(best, finals[1:], strict=True)
    ]
    found.sort(key=lambda each: -each.gain.ratio)
    caveats = caveats_of([*cells, *(cell for mine in finals for cell in mine)])
    return SearchResult(
        concurrency=setting.concurrency,
        screened=len(cells),
        baseline_tokens_per_s=_tokens_per_s(finals[0]),
        best=tuple(found),
        caveats=caveats,
    )


def _found(
    setting: Setting, baseline: Placement, placement: Placement, base: Sequence[Cell], mine: Sequence[Cell]
) -> RankedOrder:
    tokens_change = mean(mine, lambda cell: cell.tokens_per_step) / mean(base, lambda cell: cell.tokens_per_step) - 1
    step_change = mean(mine, lambda cell: cell.step_ns) / mean(base, lambda cell: cell.step_ns) - 1
    return RankedOrder(
        placement=placement,
        tokens_per_s=_tokens_per_s(mine),
        step_ns=mean(mine, lambda cell: cell.step_ns),
        gain=compare(arm_of(base), arm_of(mine), draws=setting.refitted),
        tokens_change=tokens_change,
        step_change=step_change,
        why=f"tokens per step {tokens_change:+.1%}, step time {step_change:+.1%}; "
        f"{explain(setting, baseline, placement)}",
    )


def explain(setting: Setting, baseline: Placement, other: Placement) -> str:
    """Say which work left the critical path of a full decode step and which joined it, in ns of the mean step."""
    before, after = (_on_path(setting, placement) for placement in (baseline, other))
    step_ns = max(sum(before.values()), 1.0)
    changes = {name: after.get(name, 0.0) - before.get(name, 0.0) for name in {*before, *after}}
    telling = sorted((change, name) for name, change in changes.items() if abs(change) > _TELLING_SHARE * step_ns)
    left = [f"{name} {format_ns(-change)}" for change, name in telling if change < 0]
    joined = [f"{name} {format_ns(change)}" for change, name in reversed(telling) if change > 0]
    if not left and not joined:
        return "the path is the same"
    parts = [("off the path: ", left[:3]), ("onto it: ", joined[:3])]
    return "; ".join(title + ", ".join(names) for title, names in parts if names)


def _on_path(setting: Setting, placement: Placement) -> dict[str, float]:
    scenario = replace(setting, seeds=()).scenarios(placement)[0]
    trace = replay(setting.source, setting.profile, scenario, simulator=simulator_of(setting, placement)).trace(
        setting.source.path
    )
    full = full_occupancy(decode_steps(trace.table("steps"), trace.table("rows")))
    events = trace.table("events").filter(pl.col("step").is_in(full["step"].implode()))
    means = mean_by_op(critical_path(full, events, executors_of(trace)))
    return {f"{op} ({lane})": on_path for op, lane, on_path in means.select("op", "lane", "on_path_ns").iter_rows()}


def _missing(setting: Setting, placement: Placement) -> str | None:
    priced = {priced_name(key) for key in setting.profile.decode.host}
    for slot in placement.order:
        for op in (slot.pruned, slot.full):
            if op is not None and op.name not in priced:
                return op.name
    return None


def _tokens_per_s(cells: Sequence[Cell]) -> float:
    return mean(cells, lambda cell: cell.tokens_per_s)

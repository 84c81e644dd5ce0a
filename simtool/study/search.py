"""The best legal host orders of a trace: every order replayed, the best few again with noise, and why they win."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.comparison import Comparison
from simtool.errors import UsageError
from simtool.replay.caveats import Caveats
from simtool.step.ops import priced_name
from simtool.step.order_search import legal_orders, syncing_where_run
from simtool.step.placement import BUILT_IN, Placement
from simtool.study.runner import (
    Cell,
    Progress,
    Setting,
    arm_of,
    caveats_of,
    mean_step_ns,
    mean_tokens_per_s,
    mean_tokens_per_step,
    run_cells,
    silent,
)
from simtool.study.why import changed, in_words, path_changes

BASELINE = BUILT_IN["lag-overlap"]


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
    """One of the best orders, against the baseline. gain: of its tokens/s, with the interval.

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


def order_candidates(
    setting: Setting, lags: Sequence[int | None], sync: Sequence[str] = (), *, baseline: Placement = BASELINE
) -> OrderCandidates:
    """Return the legal orders of these lags that the profile can price.

    sync: ops that block wherever an order runs them (see `with_sync`), in the baseline too. baseline: what gains are
    measured against. Raises UsageError for a sync that no order runs, PlacementError for one that cannot.
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
    return OrderCandidates(enumerated, tuple(priced), tuple(notes), syncing_where_run(baseline, sync))


def search(
    setting: Setting, tried: OrderCandidates, *, top: int, processes: int, progress: Progress = silent
) -> SearchResult:
    """Replay every candidate without noise at the fitted costs, the `top` best and the baseline with the seeds."""
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
        baseline_tokens_per_s=mean_tokens_per_s(finals[0]),
        best=tuple(found),
        caveats=caveats,
    )


def _found(
    setting: Setting, baseline: Placement, placement: Placement, base: Sequence[Cell], mine: Sequence[Cell]
) -> RankedOrder:
    tokens_change = mean_tokens_per_step(mine) / mean_tokens_per_step(base) - 1
    step_change = mean_step_ns(mine) / mean_step_ns(base) - 1
    return RankedOrder(
        placement=placement,
        tokens_per_s=mean_tokens_per_s(mine),
        step_ns=mean_step_ns(mine),
        gain=compare(arm_of(base), arm_of(mine)),
        tokens_change=tokens_change,
        step_change=step_change,
        why=f"a step emits {changed(tokens_change, 'more', 'fewer', 'the same')} tokens and takes "
        f"{changed(step_change, 'more', 'less', 'the same')} time; "
        f"{in_words(path_changes(setting, baseline, placement))}",
    )


def _missing(setting: Setting, placement: Placement) -> str | None:
    priced = {priced_name(key) for key in setting.profile.decode.host}
    for slot in placement.order:
        for op in (slot.pruned, slot.full):
            if op is not None and op.name not in priced:
                return op.name
    return None

"""Should it be turned on? The verdict, what matters more than the placement, and what would turn the answer.

Where the traces hold live runs of static and of a candidate, their comparison is the verdict; else replays are. What a
change is worth and what would turn the answer always come from replays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.comparison import Comparison
from simtool.profile.whatif import with_change
from simtool.replay.caveats import Caveats
from simtool.step.placement import Placement
from simtool.study.draft_told import DECIDE, DRAFT, op_times_ns, told
from simtool.study.runner import (
    Cell,
    Progress,
    Setting,
    arm_of,
    caveats_of,
    mean_step_ns,
    mean_tokens_per_s,
    run_cells,
    silent,
)
from simtool.units import NS_PER_MS

#: A change that is worth less than this says nothing a person would act on.
_WORTH = 0.005
#: How far a cost is varied in search of the point where another placement leads (a decision up to a whole step), and
#: how finely.
_FACTORS = (1 / 8, 8.0)
_LOSSES = (0.0, 0.6)
_HALVINGS = 10


class Lever(StrEnum):
    """What can be changed besides the placement: what the controller takes a draft to cost, or one op made free."""

    DRAFT_MS = "draft_ms"
    FREE_OP = "free_op"


@dataclass(frozen=True)
class Change:
    """What one change is worth under one placement. subject: the op, where one is meant. draft_ms: the option's value.

    worth: throughput with the change over throughput without.
    """

    lever: Lever
    placement: str
    worth: Comparison
    subject: str = ""
    draft_ms: float | None = None


class Axis(StrEnum):
    """What is varied until another placement leads."""

    DECIDE = "decide"
    DRAFT = "draft"
    STALE_LOSS = "stale_loss"


@dataclass(frozen=True)
class AxisTurn:
    """Where along an axis the lead changes hands. value: ns of a decision or a draft, or the share lost.

    today: the value now. above: whether the other leads at larger values. leads: the placement that leads there.
    None as value: nowhere between `low` and `high`.
    """

    axis: Axis
    today: float
    low: float
    high: float
    value: float | None = None
    above: bool = True
    leads: str = ""


@dataclass(frozen=True)
class Advice:
    """comparisons: of every candidate with the baseline, modeled. best: the candidate furthest ahead or least behind.

    changes: worth more than half a percent, the largest first. turns: one an axis. as_recorded: the comparisons again
    with the controller's predictor that the trace was recorded with, where that is another.
    """

    baseline: str
    comparisons: tuple[Comparison, ...]
    best: Comparison
    changes: tuple[Change, ...]
    turns: tuple[AxisTurn, ...]
    caveats: Caveats = field(default_factory=Caveats)
    as_recorded: tuple[Comparison, ...] = ()


def advise(
    setting: Setting,
    baseline: Placement,
    candidates: Sequence[Placement],
    *,
    leading: str | None = None,
    processes: int = 1,
    progress: Progress = silent,
) -> Advice:
    """Replay the candidates and the baseline, and vary what might turn their order.

    leading: the candidate that leads live, whose worth and turning points are asked for; None: the replays' best.
    Raises ProfileError when the profile lacks a cost.
    """
    found, cells = _against(setting, baseline, candidates, processes)
    recorded = _recorded_predictor(setting)
    again = _against(recorded, baseline, candidates, processes)[0] if recorded else []
    progress(1)
    best = max(found, key=lambda each: each.ratio)
    chosen = next(each for each in candidates if each.name == (leading or best.other))
    best = next(each for each in found if each.other == chosen.name)
    changes = changes_of(setting, chosen, processes)
    progress(2)
    turns = _turns(replace(setting, seeds=()), baseline, chosen)
    progress(3)
    return Advice(
        baseline=baseline.name,
        comparisons=tuple(found),
        best=best,
        changes=changes,
        turns=turns,
        caveats=caveats_of(cell for many in cells for cell in many),
        as_recorded=tuple(again),
    )


def _against(
    setting: Setting, baseline: Placement, candidates: Sequence[Placement], processes: int
) -> tuple[list[Comparison], list[list[Cell]]]:
    """Compare every candidate with the baseline; and the cells."""
    cells = run_cells([(setting, placement) for placement in (baseline, *candidates)], processes=processes)
    base = arm_of(cells[0])
    return [compare(base, arm_of(each)) for each in cells[1:]], cells


def _recorded_predictor(setting: Setting) -> Setting | None:
    """The setting with the predictor that the trace was recorded with; None where it has none, or the same."""
    options = replace(setting.controller, predictor="trace")
    theirs = options.settings(setting.source, setting.profile).predictor
    mine = setting.controller.settings(setting.source, setting.profile).predictor
    return None if theirs is None or theirs == mine else replace(setting, controller=options)


#: Stages that `advise` reports to `progress`.
STAGES = 3


def changes_of(setting: Setting, placement: Placement, processes: int) -> tuple[Change, ...]:
    """What telling the controller the draft's time is worth, and each host op for free."""
    told_ms = op_times_ns(setting, placement)[DRAFT] / NS_PER_MS
    jobs: list[tuple[Setting, Placement]] = [(setting, placement)]
    meant: list[tuple[Lever, str, float | None]] = []
    if placement.decides and not setting.controller.settings(setting.source, setting.profile).draft_ms:
        jobs.append((told(setting, told_ms), placement))
        meant.append((Lever.DRAFT_MS, "", told_ms))
    quick = replace(setting, seeds=setting.seeds[:4])
    for name in sorted({op.name for op in placement.ever_runs()} & set(setting.profile.decode.host)):
        jobs.append((_with(quick, f"host.{name}=0"), placement))
        meant.append((Lever.FREE_OP, name, None))
    plain, *changed = run_cells(jobs, processes=processes)
    found = []
    for (lever, subject, value), cells in zip(meant, changed, strict=True):
        same = plain[: len(cells)]
        changed_to = (
            f"{subject} taking no time" if lever is Lever.FREE_OP else f"told that a draft takes {value:.3g} ms"
        )
        worth = compare(arm_of(same), arm_of(cells, f"{placement.name}, {changed_to}"))
        if worth.ratio - 1 >= _WORTH:
            found.append(Change(lever=lever, placement=placement.name, worth=worth, subject=subject, draft_ms=value))
    return tuple(sorted(found, key=lambda change: -change.worth.ratio))


def _turns(setting: Setting, baseline: Placement, chosen: Placement) -> tuple[AxisTurn, ...]:
    """Vary each axis, without noise, until the lead of one over the other changes hands."""
    costs_ns = op_times_ns(setting, chosen)
    draft, decide = costs_ns[DRAFT], costs_ns.get(DECIDE)

    step_ns = max(mean_step_ns(cells) for cells in run_cells([(setting, baseline), (setting, chosen)]))

    def lead(changed: Setting) -> float:
        first, second = run_cells([(changed, baseline), (changed, chosen)])
        return mean_tokens_per_s(second) / mean_tokens_per_s(first) - 1

    axes: dict[Axis, tuple[float, tuple[float, float], Callable[[float], Setting]]] = {
        Axis.DRAFT: (
            draft,
            (draft * _FACTORS[0], draft * _FACTORS[1]),
            lambda value: _with(setting, f"device.draft=x{value / draft:.6f}"),
        ),
        Axis.STALE_LOSS: (0.0, _LOSSES, lambda value: replace(setting, stale_loss=value)),
    }
    if decide is not None:
        ends = (0.0, max(decide * _FACTORS[1], step_ns))
        axes[Axis.DECIDE] = (decide, ends, lambda value: _with(setting, f"host.decide={value:.0f}ns"))
    now = lead(setting)
    found = []
    for axis, (today, (low, high), change) in axes.items():
        if axis is Axis.STALE_LOSS and not (chosen.lag_steps and now > 0):
            continue  # it reads no older confidence, or is behind already: more losses turn nothing
        found.append(_turn(axis, today, (low, high), partial(_after, lead, change), now))
    names = {True: chosen.name, False: baseline.name}
    return tuple(replace(turn, leads=names[now <= 0] if turn.value is not None else "") for turn in found)


def _after(lead: Callable[[Setting], float], change: Callable[[float], Setting], value: float) -> float:
    return lead(change(value))


def _turn(axis: Axis, today: float, ends: tuple[float, float], lead: Callable[[float], float], now: float) -> AxisTurn:
    """Halve the stretch between today and the end at which another leads; no such end: no turn."""
    turn = AxisTurn(axis, today, *ends)
    for end in (ends[1], ends[0]):
        if end == today or (lead(end) > 0) == (now > 0):
            continue
        same, other = today, end
        for _ in range(_HALVINGS):
            middle = (same + other) / 2
            if (lead(middle) > 0) == (now > 0):
                same = middle
            else:
                other = middle
        return replace(turn, value=other, above=end > today)
    return turn


def _with(setting: Setting, change: str) -> Setting:
    return replace(setting, profile=with_change(setting.profile, change))

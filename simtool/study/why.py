"""Why a placement is faster than another, or not: what a step emits, how long it takes, and what its path is made of.

Tokens per second are tokens of a step over its time. Fewer tokens are lost by pruning and, where the decision reads an
older confidence, by that: the same controller with this step's confidence tells the two apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import polars as pl

from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.comparison import Comparison
from simtool.analysis.critical_path.backtrace import LATENCY, WORKING
from simtool.analysis.critical_path.totals import EVENTS, busy_of, executors_of, path_totals
from simtool.analysis.metrics import decode_steps_of, full_occupancy
from simtool.replay.caveats import Caveats
from simtool.replay.passing import passing_replay
from simtool.step.placement import BUILT_IN, Placement
from simtool.study.runner import (
    Cell,
    Progress,
    Setting,
    arm_of,
    caveats_of,
    mean_step_ns,
    mean_tokens_per_step,
    run_cells,
    silent,
    simulator_of,
)
from simtool.units import format_ns

FRESH = "this-step"
_TELLING_SHARE = 0.001  # of the step: a smaller change on the path explains nothing
_MOST = 3
_Place = tuple[str, str]


@dataclass(frozen=True)
class PathChange:
    """One op on one lane: how much of its own time is on the critical path of the mean full step, ns, before and after.

    Never more than what it takes (`op_times_ns`). LATENCY, on no lane: where nobody works, all of it together.
    """

    op: str
    lane: str
    before_ns: float
    after_ns: float

    @property
    def name(self) -> str:
        """The op, and where it runs."""
        return f"{self.op} ({self.lane})" if self.lane else self.op

    @property
    def change_ns(self) -> float:
        """How much more of the path is its own; negative: it left."""
        return self.after_ns - self.before_ns


@dataclass(frozen=True)
class MeanStep:
    """A placement's mean step, ns, at the fitted costs without noise. full: of the full batch, as studies have it;
    every: of all decode steps, as `replay` and `compare` have it, where the batch ramps up and down too.
    """

    full_ns: float
    every_ns: float


@dataclass(frozen=True)
class Reasons:
    """difference: in tokens/s, with its interval. tokens_change, step_change: of the mean full step, shares.

    by_pruning, by_age: the parts of tokens_change, which multiply to it; None where no older confidence is read, or
    the baseline reads one too. path: what left the critical path and what joined it, at the fitted costs. before,
    after: the steps that the path fills.
    """

    difference: Comparison
    tokens_change: float
    step_change: float
    by_pruning: float | None
    by_age: float | None
    path: tuple[PathChange, ...]
    before: MeanStep
    after: MeanStep
    caveats: Caveats = field(default_factory=Caveats)


def reasons(
    setting: Setting, baseline: Placement, other: Placement, *, processes: int = 1, progress: Progress = silent
) -> Reasons:
    """Replay both with the setting's seeds, and explain their difference.

    Raises ProfileError when the profile lacks a cost of either.
    """
    aged = bool(other.lag_steps) and not baseline.lag_steps
    placements = [baseline, other, *([BUILT_IN[FRESH]] if aged else [])]
    cells = run_cells([(setting, placement) for placement in placements], processes=processes, progress=progress)
    base, mine = cells[0], cells[1]
    fresh = cells[2] if aged else None
    paths = [_on_path(setting, placement) for placement in (baseline, other)]
    return Reasons(
        difference=compare(arm_of(base), arm_of(mine)),
        tokens_change=_change(base, mine),
        step_change=mean_step_ns(mine) / mean_step_ns(base) - 1,
        by_pruning=_change(base, fresh) if fresh else None,
        by_age=_change(fresh, mine) if fresh else None,
        path=tuple(_changes(paths[0].on_path_ns, paths[1].on_path_ns)),
        before=paths[0].step,
        after=paths[1].step,
        caveats=caveats_of(cell for found in cells for cell in found),
    )


def count_replays(setting: Setting) -> int:
    """Return how many replays `reasons` takes at most, for progress."""
    return 3 * max(len(setting.seeds), 1)


def _change(before: Sequence[Cell], after: Sequence[Cell]) -> float:
    return mean_tokens_per_step(after) / mean_tokens_per_step(before) - 1


def path_changes(setting: Setting, baseline: Placement, other: Placement) -> list[PathChange]:
    """Return what changes by a thousandth of the step at least: what left most first, what joined most last.

    Replayed without noise at the fitted costs.
    """
    return _changes(*(_on_path(setting, placement).on_path_ns for placement in (baseline, other)))


def _changes(before: Mapping[_Place, float], after: Mapping[_Place, float]) -> list[PathChange]:
    step_ns = max(sum(before.values()), 1.0)
    changes = [PathChange(*key, before.get(key, 0.0), after.get(key, 0.0)) for key in {*before, *after}]
    telling = [each for each in changes if abs(each.change_ns) > _TELLING_SHARE * step_ns]
    return sorted(telling, key=lambda each: (each.change_ns, each.op, each.lane))


def changed(share: float, more: str, less: str, same: str) -> str:
    """Say a change, a share, in percent; what rounds to nothing is the same."""
    percent = f"{abs(share) * 100:.1f} %"
    return same if percent == "0.0 %" else f"{percent} {more if share > 0 else less}"


def in_words(changes: Sequence[PathChange]) -> str:
    """Say which three pieces of work left the critical path most and which joined it."""
    left = [f"{each.name} {format_ns(-each.change_ns)}" for each in changes if each.change_ns < 0]
    joined = [f"{each.name} {format_ns(each.change_ns)}" for each in reversed(changes) if each.change_ns > 0]
    if not left and not joined:
        return "the path is the same"
    parts = [("off the path: ", left[:_MOST]), ("onto it: ", joined[:_MOST])]
    return "; ".join(title + ", ".join(names) for title, names in parts if names)


@dataclass(frozen=True)
class _Path:
    """(op, lane) -> its part of the mean full step's critical path, ns; and that step."""

    on_path_ns: dict[_Place, float]
    step: MeanStep


def _on_path(setting: Setting, placement: Placement) -> _Path:
    scenario = replace(setting, seeds=()).scenarios(placement)[0]
    simulator = simulator_of(setting, placement)
    with passing_replay(setting.source, setting.profile, scenario, simulator=simulator) as (trace, _):
        every = decode_steps_of(trace)
        full = full_occupancy(every)
        events = partial(trace.stretches, "events", *EVENTS)
        paths, _ = path_totals(full, events, executors_of(trace), busy_of(trace))
    works = pl.col("part").is_in([part.value for part in WORKING])
    sums = paths.parts.group_by(
        op=pl.when(works).then("op").otherwise(pl.lit(LATENCY)),
        lane=pl.when(works).then("lane").otherwise(pl.lit("")),
    ).agg(total_ns=pl.col("ns").sum())
    found = {(op, lane): total_ns / full.height for op, lane, total_ns in sums.iter_rows()}
    lengths = (float(steps["duration_ns"].to_numpy().mean()) for steps in (full, every))
    return _Path(found, MeanStep(*lengths))

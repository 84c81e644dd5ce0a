"""How much acceptance a lag may cost before it stops paying.

A lag placement beats this-step as long as (1 - loss) / T_lag > 1 / T_this, so the loss it can afford is
1 - T_lag / T_this; loss: of tokens per step, against this-step. Both step times and the loss that the trace really
shows come from replays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from simtool.profile.whatif import with_change
from simtool.replay.caveats import Caveats, merged
from simtool.stats.interval import Interval
from simtool.stats.student import mean_interval
from simtool.step.placement import BUILT_IN, Placement
from simtool.study.runner import Cell, Progress, Setting, run_cells, silent


@dataclass(frozen=True)
class BreakEven:
    """One point. decision_ns: what a decision was set to cost. affordable, lost: shares of tokens per step.

    Where every seed has refitted costs, the intervals are of one draw, not of the mean: they cover the fit's error.
    """

    concurrency: int
    decision_ns: int
    affordable: Interval
    lost: Interval
    caveats: Caveats = field(default_factory=Caveats)

    @property
    def pays(self) -> bool:
        """Whether the lag placement gives more tokens per second."""
        return self.lost.mean < self.affordable.mean


def break_even(
    settings: Sequence[Setting],
    decisions_ns: Sequence[int],
    lagged: Placement,
    *,
    processes: int,
    progress: Progress = silent,
) -> list[BreakEven]:
    """Compare a lag placement with this-step at every decision cost under every setting (one a concurrency)."""
    points = [
        (replace(setting, profile=with_change(setting.profile, f"host.decide={cost}ns")), cost)
        for setting in settings
        for cost in decisions_ns
    ]
    jobs = [(setting, placement) for setting, _ in points for placement in (BUILT_IN["this-step"], lagged)]
    cells = run_cells(jobs, processes=processes, progress=progress)
    return [_point(setting, cost, cells[2 * i], cells[2 * i + 1]) for i, (setting, cost) in enumerate(points)]


def caveats_of(points: Sequence[BreakEven]) -> Caveats:
    """Return what their replays have to say together; the cost of a decision, which they vary, is left out."""
    return merged(point.caveats for point in points)


def _point(setting: Setting, decision_ns: int, fresh: Sequence[Cell], lagged: Sequence[Cell]) -> BreakEven:
    pairs = list(zip(fresh, lagged, strict=True))
    return BreakEven(
        concurrency=setting.concurrency,
        decision_ns=decision_ns,
        affordable=mean_interval([1 - old.step_ns / new.step_ns for new, old in pairs], draws=setting.refitted),
        lost=mean_interval(
            [1 - old.tokens_per_step / new.tokens_per_step for new, old in pairs], draws=setting.refitted
        ),
        caveats=merged(cell.caveats for cell in (*fresh, *lagged)),
    )

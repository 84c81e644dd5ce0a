"""Acceptance loss as an axis of its own: what if decisions on old confidence lost more than these outcomes say?

The best lag placement of every setting is replayed with a share of the accepted drafts of its stale decisions taken
away (`stale_loss`, see replay.batch.thinned), its batches as wide as before. this-step and static decide on nothing
old, so theirs are the replays of the map without a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simtool import Placement
from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.comparison import Comparison
from simtool.stats.interval import Interval
from simtool.study.runner import Cell, Progress, Setting, arm_of, mean_tokens_per_s, run_cells, silent
from xllm_2280.regions import BASELINE, Region, lost

#: Shares of its accepted drafts that a stale decision is made to lose.
STALE_LOSSES = (0.05, 0.1, 0.2, 0.4)


@dataclass(frozen=True)
class LossPoint:
    """One point of the axis. lost: tokens per step that the lag placement then loses against this-step, in all.

    rival: the better of the placements without a lag; lead: of the lag placement over it, in tokens/s.
    """

    stale_loss: float
    lost: Interval
    rival: str
    lead: Comparison


@dataclass(frozen=True)
class LossAxis:
    """The axis at one point of the map, from no imposed loss upwards."""

    region: Region
    points: tuple[LossPoint, ...]

    def winner(self, point: LossPoint) -> str:
        """Return the placement with more tokens/s; see `LossPoint.lead` for whether that is told from a tie."""
        return self.region.lagged if point.lead.ratio > 1 else point.rival


def loss_axes(
    settings: Sequence[Setting],
    regions: Sequence[Region],
    placements: Sequence[Placement],
    *,
    losses: Sequence[float] = STALE_LOSSES,
    processes: int,
    progress: Progress = silent,
) -> list[LossAxis]:
    """Walk the axis at each point of the map; settings, placements: those that `regions` were made from."""
    by_name = {placement.name: placement for placement in placements}
    jobs = [
        (replace(setting, stale_loss=loss), by_name[region.lagged])
        for setting, region in zip(settings, regions, strict=True)
        for loss in losses
    ]
    cells = run_cells(jobs, processes=processes, progress=progress)
    size = len(losses)
    rivals = [placement.name for placement in placements if not placement.lag_steps]
    return [
        LossAxis(
            region,
            tuple(
                _point(region, loss, found, rivals)
                for loss, found in zip(
                    (0.0, *losses),
                    (region.cells_of(region.lagged), *cells[i * size : (i + 1) * size]),
                    strict=True,
                )
            ),
        )
        for i, region in enumerate(regions)
    ]


def _point(region: Region, loss: float, lagged: Sequence[Cell], rivals: Sequence[str]) -> LossPoint:
    rival = max((region.cells_of(name) for name in rivals), key=mean_tokens_per_s)
    return LossPoint(
        loss,
        lost(region.cells_of(BASELINE), lagged, draws=region.refitted),
        rival[0].placement,
        compare(arm_of(rival), arm_of(lagged)),
    )

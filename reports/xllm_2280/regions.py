"""Which placement wins where: SL x concurrency x host cost over device cost, and how much loss the winner can bear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simtool import Placement
from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.comparison import Comparison
from simtool.stats.interval import Interval
from simtool.stats.student import mean_interval
from simtool.study.runner import Cell, Progress, Setting, arm_of, mean_tokens_per_s, run_cells, silent
from xllm_2280.load import Load

BASELINE = "this-step"


#: A lead of less is a tie: two interleaved live runs of one placement differ by as much.
LEAST_LEAD = 0.005


@dataclass(frozen=True)
class Region:
    """One point of the map.

    winner: the placement with the most tokens/s. gain: of the winner over this-step; lead: over the runner-up.
    lagged: the lag placement with the most. affordable: the share of tokens per step that it may lose against
    this-step before this-step or static overtakes it; lost: what it does lose. refitted: see Setting.
    """

    load: Load
    profile: str
    concurrency: int
    winner: str
    gain: Comparison
    runner_up: str
    lead: Comparison
    lagged: str
    affordable: Interval
    lost: Interval
    cells: tuple[tuple[Cell, ...], ...]
    refitted: bool = False

    def cells_of(self, placement: str) -> tuple[Cell, ...]:
        """Return the cells of one placement, one a seed."""
        return next(found for found in self.cells if found[0].placement == placement)

    @property
    def sl(self) -> int:
        """Draft tokens per block."""
        return self.load.sl

    @property
    def tied(self) -> bool:
        """Whether the winner cannot be told from the runner-up, or leads by less than anyone could act on."""
        return not self.lead.resolved or self.lead.ratio - 1 < LEAST_LEAD


def regions(
    settings: Sequence[Setting], placements: Sequence[Placement], *, processes: int, progress: Progress = silent
) -> list[Region]:
    """Run every placement under every setting; placements hold this-step and one with a lag at least."""
    jobs = [(setting, placement) for setting in settings for placement in placements]
    cells = run_cells(jobs, processes=processes, progress=progress)
    size = len(placements)
    return [_region(setting, placements, cells[i * size : (i + 1) * size]) for i, setting in enumerate(settings)]


def _region(setting: Setting, placements: Sequence[Placement], cells: Sequence[list[Cell]]) -> Region:
    order = sorted(range(len(cells)), key=lambda i: -mean_tokens_per_s(cells[i]))
    first, second = cells[order[0]], cells[order[1]]
    fresh = next(found for found, placement in zip(cells, placements, strict=True) if placement.name == BASELINE)
    lagged = next(cells[i] for i in order if placements[i].lag_steps)
    rivals = [found for found, placement in zip(cells, placements, strict=True) if not placement.lag_steps]
    return Region(
        load=Load.of(setting.source),
        profile=setting.profile.name,
        concurrency=setting.concurrency,
        winner=first[0].placement,
        gain=compare(arm_of(fresh), arm_of(first)),
        runner_up=second[0].placement,
        lead=compare(arm_of(second), arm_of(first)),
        lagged=lagged[0].placement,
        affordable=mean_interval(
            [_affordable(i, fresh, lagged, rivals) for i in range(len(fresh))], draws=setting.refitted
        ),
        lost=lost(fresh, lagged, draws=setting.refitted),
        cells=tuple(map(tuple, cells)),
        refitted=setting.refitted,
    )


def lost(fresh: Sequence[Cell], lagged: Sequence[Cell], *, draws: bool) -> Interval:
    """Return the share of tokens per step that a lag placement loses against this-step."""
    pairs = zip(fresh, lagged, strict=True)
    return mean_interval([1 - old.tokens_per_step / new.tokens_per_step for new, old in pairs], draws=draws)


def _affordable(seed: int, fresh: Sequence[Cell], lagged: Sequence[Cell], rivals: Sequence[Sequence[Cell]]) -> float:
    """Loss at which (1 - loss) x this-step's tokens per step in the lag's step time equal the best rival."""
    lossless = fresh[seed].tokens_per_step / lagged[seed].step_ns
    rival = max(found[seed].tokens_per_step / found[seed].step_ns for found in rivals)
    return 1 - rival / lossless

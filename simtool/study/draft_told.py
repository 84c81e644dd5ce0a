"""What ops take, and what it is worth that the controller is told that of a draft: xLLM's counts the verify alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.comparison import Comparison
from simtool.analysis.comparison.headline import BASELINE
from simtool.analysis.metrics import decode_steps_of, full_occupancy
from simtool.replay.passing import passing_replay
from simtool.step.ops import Lane
from simtool.step.placement import BUILT_IN, Placement
from simtool.study.runner import Job, Setting, arm_of, run_cells, simulator_of
from simtool.units import NS_PER_MS

_READ = ("step", "op", "lane", "start_ns", "end_ns", "wait_start_ns", "wait_end_ns")
#: Sides that an op's work is on: the host, or any stream of the device.
HOST, DEVICE = "host", "device"
#: The device work whose time the controller may be told, and the host's decision.
DRAFT, DECIDE = ("draft", DEVICE), ("decide", HOST)
#: What is turned on, and told, where a placement decides nothing.
DECIDES = "this-step"


@dataclass(frozen=True)
class DraftTold:
    """placement: whose controller is told. draft_ms: the option's value. All else in tokens/s, told over what is not.

    worth: over the one asked about, untold. over_untold: over the same placement. over_static: over static, by replays
    alone. live: what live runs showed of the placement, untold, over static; None: nobody ran it.
    """

    placement: str
    draft_ms: float
    worth: Comparison
    over_untold: Comparison
    over_static: Comparison
    live: Comparison | None = None

    @property
    def gain(self) -> float:
        """What it gives over static, a share: on the live difference where that is known."""
        return gain_told(self.live, self.over_untold) if self.live else self.over_static.ratio - 1


def gain_told(untold: Comparison, told: Comparison) -> float:
    """Return what a placement gives over static once its controller is told, a share; every command says this one.

    untold: the placement over static, live where that is known. told: over itself untold.
    """
    return untold.ratio * told.ratio - 1


def op_times_ns(setting: Setting, placement: Placement) -> dict[tuple[str, str], float]:
    """Return what each op takes in a step, ns, by (op, side): the one figure that every study gives of it.

    Its own time, waits left out, summed over the decode steps at full occupancy and divided by their number, at the
    fitted costs without noise. Never less than what of it lies on the critical path (`why`). Raises as a replay does.
    """
    (scenario,) = replace(setting, seeds=()).scenarios(placement)
    simulator = simulator_of(setting, placement)
    side = pl.when(pl.col("lane") == Lane.HOST.value).then(pl.lit(HOST)).otherwise(pl.lit(DEVICE))
    waited = (pl.col("wait_end_ns") - pl.col("wait_start_ns")).fill_null(0)
    own = (pl.col("end_ns") - pl.col("start_ns") - waited).alias("total_ns")
    with passing_replay(setting.source, setting.profile, scenario, simulator=simulator) as (trace, _):
        full = full_occupancy(decode_steps_of(trace))
        mine = pl.col("step").is_in(full["step"].implode())
        parts = [
            events.filter(mine).group_by("op", side=side).agg(own.sum()) for events in trace.stretches("events", *_READ)
        ]
    times = pl.concat(parts).group_by("op", "side").agg(pl.col("total_ns").sum())
    return {(op, where): total_ns / full.height for op, where, total_ns in times.iter_rows()}


def told(setting: Setting, draft_ms: float) -> Setting:
    """Return the setting with a controller that takes a draft to cost so much."""
    return replace(setting, controller=replace(setting.controller, draft_ms=draft_ms))


def draft_told(setting: Setting, placement: Placement, *, processes: int = 1) -> DraftTold | None:
    """Return what telling it is worth to a placement; to one that decides nothing: to this-step, turned on besides.

    Replayed with the setting's seeds. None where the controller is told already, or has no predictor and so prunes
    nothing. Raises as a replay does.
    """
    options = setting.controller.settings(setting.source, setting.profile)
    if options.draft_ms or options.predictor is None:
        return None
    deciding = placement if placement.decides else BUILT_IN[DECIDES]
    draft_ms = op_times_ns(setting, deciding)[DRAFT] / NS_PER_MS
    untold = {each.name: (setting, each) for each in (placement, deciding, BUILT_IN[BASELINE])}
    jobs: Sequence[Job] = [*untold.values(), (told(setting, draft_ms), deciding)]
    *before, after = run_cells(jobs, processes=processes)
    worth = {
        name: compare(arm_of(cells), arm_of(after, f"{deciding.name}, told"))
        for name, cells in zip(untold, before, strict=True)
    }
    return DraftTold(deciding.name, draft_ms, worth[placement.name], worth[deciding.name], worth[BASELINE])

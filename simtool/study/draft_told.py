"""What it is worth that the controller is told what a draft costs: as xLLM has it, it counts the verify alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.comparison import Comparison
from simtool.analysis.metrics import decode_steps, full_occupancy
from simtool.replay.replay import replay
from simtool.step.ops import Lane
from simtool.step.placement import BUILT_IN, Placement
from simtool.study.runner import Job, Setting, arm_of, run_cells
from simtool.units import NS_PER_MS

#: The device work whose time the controller may be told.
DRAFT = (Lane.COMPUTE.value, "draft")
#: What is turned on, and told, where a placement decides nothing.
DECIDES = "this-step"


@dataclass(frozen=True)
class DraftTold:
    """placement: whose controller is told. draft_ms: the option's value. worth: over the one asked about, untold."""

    placement: str
    draft_ms: float
    worth: Comparison


def mean_costs_ns(setting: Setting, placement: Placement) -> dict[tuple[str, str], float]:
    """Replay once without noise: the mean duration of each (lane, op) over decode steps at full occupancy."""
    (scenario,) = replace(setting, seeds=()).scenarios(placement)
    tables = replay(setting.source, setting.profile, scenario).tables
    full = full_occupancy(decode_steps(tables["steps"], tables["rows"]))
    events = tables["events"].join(full.select("step"), on="step", how="semi")
    mean_ns = (pl.col("end_ns") - pl.col("start_ns")).mean()
    return {(lane, op): value for lane, op, value in events.group_by("lane", "op").agg(mean_ns).iter_rows()}


def told(setting: Setting, draft_ms: float) -> Setting:
    """Return the setting with a controller that takes a draft to cost so much."""
    return replace(setting, controller=replace(setting.controller, draft_ms=draft_ms))


def draft_told(setting: Setting, placement: Placement, *, processes: int = 1) -> DraftTold | None:
    """Return what telling it is worth to a placement; to one that decides nothing: what this-step, told, gives over it.

    None where the controller is told already, or has no predictor and so prunes nothing. Raises as a replay does.
    """
    options = setting.controller.settings(setting.source, setting.profile)
    if options.draft_ms or options.predictor is None:
        return None
    deciding = placement if placement.decides else BUILT_IN[DECIDES]
    draft_ms = mean_costs_ns(setting, deciding)[DRAFT] / NS_PER_MS
    jobs: Sequence[Job] = [(setting, placement), (told(setting, draft_ms), deciding)]
    before, after = run_cells(jobs, processes=processes)
    return DraftTold(deciding.name, draft_ms, compare(arm_of(before), arm_of(after, f"{deciding.name}, told")))

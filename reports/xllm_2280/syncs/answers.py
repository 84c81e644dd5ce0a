"""Both models on one machine at one concurrency: every variant's figures, and where a pruned step loses its time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from simtool.analysis.critical_path.critical_path import critical_path, mean_by_op
from simtool.analysis.critical_path.totals import executors_of
from simtool.analysis.metrics import decode_steps, full_occupancy
from simtool.replay.caveats import Caveats
from simtool.replay.replay import replay
from simtool.study.runner import Setting, caveats_of, run_cells
from xllm_2280.syncs.questions import CellFigures
from xllm_2280.syncs.variants import BY_KEY, VARIANTS, Variant

#: Whose steps are taken apart.
TAKEN_APART = ("plain lag-overlap", "lag-overlap", "fill pinned", "both pinned")


@dataclass(frozen=True)
class Exposed:
    """An op in the pruned full-batch steps. exposed_us: time of the critical path that is its own while no device lane
    ran, by variant."""

    op: str
    exposed_us: tuple[float, ...]


@dataclass(frozen=True)
class MachineAnswer:
    """One machine at one concurrency. figures: by variant key. exposed: ops of TAKEN_APART's steps, longest first.

    pruned_share: of lag-overlap's full-batch steps.
    """

    machine: str
    what: str
    setting: Setting
    figures: dict[str, CellFigures]
    exposed: tuple[Exposed, ...]
    pruned_share: float
    caveats: Caveats


def answer_machine(setting: Setting, what: str, *, processes: int) -> MachineAnswer:
    """Replay every variant under a setting without noise; the same steps with the same tokens at one lag."""
    quiet = replace(setting, seeds=())
    jobs = [(variant.under(quiet), variant.placement) for variant in VARIANTS]
    cells = run_cells(jobs, processes=processes)
    figures = {variant.key: CellFigures.of(found) for variant, found in zip(VARIANTS, cells, strict=True)}
    apart = [_exposed(quiet, BY_KEY[key]) for key in TAKEN_APART]
    ops = sorted({op for found, _ in apart for op in found}, key=lambda op: -max(f.get(op, 0.0) for f, _ in apart))
    return MachineAnswer(
        machine=setting.profile.name,
        what=what,
        setting=quiet,
        figures=figures,
        exposed=tuple(Exposed(op, tuple(found.get(op, 0.0) for found, _ in apart)) for op in ops),
        pruned_share=apart[1][1],
        caveats=replace(caveats_of(cell for found in cells for cell in found), changes=()),
    )


def _exposed(setting: Setting, variant: Variant) -> tuple[dict[str, float], float]:
    """Exposed us of each op of a variant's pruned full-batch steps, and the share of steps that prune."""
    changed = variant.under(setting)
    (scenario,) = changed.scenarios(variant.placement)
    trace = replay(changed.source, changed.profile, scenario).trace(changed.source.path)
    full = full_occupancy(decode_steps(trace.table("steps"), trace.table("rows")))
    pruned = trace.table("steps").filter(pl.col("step").is_in(full["step"].implode()), pl.col("pruned"))
    events = trace.table("events").filter(pl.col("step").is_in(pruned["step"].implode()))
    path = mean_by_op(critical_path(pruned, events, executors_of(trace)))
    by_op = path.group_by("op").agg(pl.col("exposed_ns").sum() / 1000)
    return dict(by_op.iter_rows()), len(pruned) / max(len(full), 1)


def total_exposed(answer: MachineAnswer) -> Sequence[float]:
    """Return the exposed us of a step of each of TAKEN_APART."""
    return [sum(each.exposed_us[place] for each in answer.exposed) for place in range(len(TAKEN_APART))]

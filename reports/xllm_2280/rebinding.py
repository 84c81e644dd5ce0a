"""NPU graph mode: where the target's lengths are rebound, priced with what-if changes.

Every captured attention op is given its new host lengths before a graph's replay. The target's lengths depend on
prefix lengths only, so they can be rebound with the batch's build as well as after the fill.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from simtool import PLACEMENTS, Placement, with_changes
from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.comparison import Comparison
from simtool.study.runner import Setting, arm_of, mean_step_ns, run_cells
from xllm_2280.arms import LAG_IN_PLACE

#: Public figure for 20 layers at batch 1 (vllm-ascend issue 13058).
REBIND_US = 3680
_AFTER = (f"launch_target=+{REBIND_US}us",)
_WINDOW = (f"build_varlen=+{REBIND_US}us", f"build_dense=+{REBIND_US}us")


@dataclass(frozen=True)
class Rebound:
    """One order with one place of the rebinding. gain: tokens/s over lag-overlap with the rebinding after the fill."""

    concurrency: int
    placement: str
    place: str
    changes: tuple[str, ...]
    step_ns: float
    gain: Comparison


def rebinding(setting: Setting, *, processes: int) -> list[Rebound]:
    """Price the target's rebinding after the fill and in the overlap window."""
    overlap, late = PLACEMENTS["lag-overlap"], PLACEMENTS["lag-overlap-late"]
    plans: list[tuple[Placement, str, tuple[str, ...]]] = [
        (overlap, "after the fill", _AFTER),
        (PLACEMENTS["this-step"], "after the fill", _AFTER),
        (late, "after the fill", _AFTER),
        (late, "with the build, before launch_sample", _WINDOW),
        (LAG_IN_PLACE, "with the build, after launch_sample", _WINDOW),
    ]
    jobs = [(_changed(setting, changes), placement) for placement, _, changes in plans]
    cells = run_cells(jobs, processes=processes)
    base = arm_of(cells[0], "lag-overlap, rebinding after the fill")
    return [
        Rebound(
            concurrency=setting.concurrency,
            placement=placement.name,
            place=place,
            changes=changes,
            step_ns=mean_step_ns(found),
            gain=compare(base, arm_of(found, f"{placement.name}, rebinding {place}")),
        )
        for (placement, place, changes), found in zip(plans, cells, strict=True)
    ]


def _changed(setting: Setting, changes: tuple[str, ...]) -> Setting:
    return replace(setting, profile=with_changes(setting.profile, changes))

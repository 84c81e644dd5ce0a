"""What the page cannot reckon in the browser: which drafts each step verifies and accepts, replayed once a grid point.

In a closed loop neither costs nor the order of the ops has a say in that: it follows from the outcomes, the lag of the
decision and the controller. So one replay serves every placement of a lag, and whatever the reader does to its costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.comparison import Comparison
from simtool.analysis.comparison.extrapolation import extrapolation
from simtool.analysis.comparison.headline import BASELINE
from simtool.profile.profile import Profile
from simtool.profile.sync_costs import with_sync_costs
from simtool.replay.caveats import Visits
from simtool.replay.compiled.plan import PREFILL
from simtool.replay.compiled.replays import CompiledReplays
from simtool.replay.compiled.run import CompiledRun
from simtool.replay.compiled.served import serve
from simtool.replay.replay import as_run, caveats_of
from simtool.report.whatif.model import Json, costs_json, placement_json
from simtool.stats.student import quantile
from simtool.step.beyond import Beyond
from simtool.step.cost_features import PREFILL_FEATURES
from simtool.step.placement import Placement, without_sync
from simtool.study.runner import Setting, arm_of, run_cells


@dataclass(frozen=True)
class WhatIfGrid:
    """settings: one a concurrency, all of one trace and profile. placements: that the profile can price.

    command: words of the command that replays it, to which placements, a concurrency and changed costs are added.
    """

    settings: Sequence[Setting]
    placements: Sequence[Placement]
    command: Sequence[str] = ()

    def against_baseline(self, setting: Setting, name: str) -> Comparison | None:
        """Compare a placement as it stands with the baseline; None of the baseline itself, or where there is none."""
        known = {placement.name: placement for placement in self.placements}
        if name == BASELINE or BASELINE not in known:
            return None
        first, second = run_cells([(setting, known[BASELINE]), (setting, known[name])])
        return compare(arm_of(first), arm_of(second))


def grid_json(grid: WhatIfGrid, progress: Callable[[], None]) -> Json:
    """Replay every lag at every concurrency; return costs, placements and plans as plain JSON values.

    progress: hears of every setting that is done.
    Raises TraceError where the trace lacks an outcome, ProfileError where the profile lacks a cost.
    """
    first = grid.settings[0]
    placements = [without_sync(placement, first.profile.pinned) for placement in grid.placements]
    return {
        "sl": first.source.manifest.sl,
        "trace": first.source.path.name,
        "profile": first.profile.name,
        "device": first.profile.device_name,
        "controller": first.controller.told(first.source, first.profile),
        "placements": [placement_json(placement) for placement in placements],
        "spread": _spread(first),
        "command": list(grid.command),
        "concurrencies": [_point(grid, setting, placements, progress) for setting in grid.settings],
        **costs_json([first.profile, *_draws(first, placements)], placements),
    }


def _draws(setting: Setting, placements: Sequence[Placement]) -> list[Profile]:
    found = []
    for seed in setting.seeds:
        profile = setting.costs(seed)
        for placement in placements:
            profile = with_sync_costs(profile, placement)
        found.append(profile)
    return found


def _spread(setting: Setting) -> float:
    """What the spread of the draws' log ratios is taken times for half an interval, as `mean_interval` does."""
    count = len(setting.seeds)
    if count < 2:
        return 0.0
    return quantile(count - 1) / sqrt(count) * (sqrt(count + 1) if setting.refitted else 1.0)


def _lag(placement: Placement) -> str:
    return f"lag {placement.lag_steps}" if placement.decides else "no decision"


def _point(grid: WhatIfGrid, setting: Setting, placements: Sequence[Placement], progress: Callable[[], None]) -> Json:
    replays = CompiledReplays(setting.source)
    plans: dict[str, Json] = {}
    told: dict[str, Json] = {}
    beyond: dict[str, tuple[Beyond, ...]] = {}
    luck: list[list[float]] = []
    for placement in placements:
        profile, scenario = as_run(setting.profile, replace(setting, seeds=()).scenarios(placement)[0])
        run = replays.run(profile, scenario)
        lag = _lag(placement)
        if lag not in plans:
            plans[lag] = _plan(run, noisy=bool(setting.seeds))
            luck = luck or [serve(run.queue.outcomes).luck(seed).tolist() for seed in setting.seeds]
        visits = Visits(run.looked_up, run.substituted)
        caveats = caveats_of(setting.source, profile, scenario, visits, run.extrapolated)
        ends = None if setting.seeds else _ends(grid.against_baseline(setting, placement.name))
        beyond[placement.name] = caveats.beyond
        told[placement.name] = {"plan": lag, "caveats": [*caveats.short(), *caveats.proxies], "ends": ends}
    progress()
    shown = {name: {**mine, "extrapolated": _extrapolated(name, beyond)} for name, mine in told.items()}
    return {"concurrency": setting.concurrency, "plans": plans, "placements": shown, "luck": luck}


def _extrapolated(name: str, beyond: Mapping[str, tuple[Beyond, ...]]) -> str:
    """What opens a placement's answer where it or the baseline was priced beyond the calibrated sizes; else empty."""
    both = () if name == BASELINE else (*beyond[name], *beyond.get(BASELINE, ()))
    found = extrapolation(both)
    return found.opening if found is not None else ""


def _ends(comparison: Comparison | None) -> list[float] | None:
    """The interval's ends over the ratio, for costs without noise or refits: what the replay's own steps tell."""
    bounds = comparison.found.bounds if comparison else None
    return [end / comparison.ratio for end in bounds] if comparison and bounds else None


def _plan(run: CompiledRun, *, noisy: bool) -> Json:
    steps = run.plan.steps
    sizes = steps.sizes.copy()
    sizes[steps.kind == PREFILL, len(PREFILL_FEATURES) :] = 0
    return {
        "kind": steps.kind.tolist(),
        "batch": steps.batch.tolist(),
        "tokens": steps.tokens.tolist(),
        "drawAt": steps.draw_at.tolist() if noisy else [],
        "drawOffset": steps.draw_offset.tolist() if noisy else [],
        "sizes": [_column(column) for column in sizes.T],
        "fullBatch": int(steps.batch[steps.kind != PREFILL].max()),
        "requests": len(run.queue.requests),
    }


def _column(values: NDArray[np.float64]) -> list[float] | float:
    """A size by step, whole where it is; one number where it never changes."""
    plain = [int(value) if value.is_integer() else value for value in values.tolist()]
    return plain[0] if len(set(plain)) == 1 else plain

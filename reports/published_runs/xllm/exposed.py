"""How much of what lag-overlap moves was on the critical path under lag at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from xllm_2280.syncs.draws import drawn_figures, factors

from published_runs.tables import xllm_arms
from published_runs.xllm.machine import CONCURRENCY, MIDDLE, traffic
from simtool.profile.profile import Profile
from simtool.profile.published import constructed_profile
from simtool.profile.whatif import with_changes
from simtool.replay.synthetic.lengths import Lengths
from simtool.step.placement import resolve_placement
from simtool.study.runner import Setting, run_cells
from simtool.units import NS_PER_US

#: 64 requests of one length: two full batches, one after the other.
_REQUESTS, _LENGTH = 64, Lengths(96)
_POWER = 6
_CREATED = "2026-12-01"  # these profiles are not kept
ARMS = ("lag", "xllm-2280/lag")
#: The draft, with its sampling, as the figures have it, and shorter.
DRAFT_MS = (6.0, 3.0, 2.0, 1.5, 1.0, 0.5)


@dataclass(frozen=True)
class Exposed:
    """Under lag, as our placement orders it or as the pull request's code runs.

    moved_us: the build that lag-overlap moves. exposed_us: by how much the step is shorter without it, every
    figure as assumed; drawn_us: under draws of the assumed figures. overlap_gain, drawn_gains: of lag-overlap's
    step. by_draft_us: exposed, by ms that the draft takes.
    """

    arm: str
    sl: int
    moved_us: float
    exposed_us: float
    drawn_us: NDArray[np.float64]
    overlap_gain: float
    drawn_gains: NDArray[np.float64]
    by_draft_us: dict[float, float]


def exposed(folder: Path, figures: Path, arm: str, sl: int) -> Exposed:
    """Replay full batches with the build as it costs, without it, and moved. figures: the TOML of the machine."""
    rate = next(row.acceptance_rate for row in xllm_arms(folder) if row.arm == "static" and row.sl == sl)
    base = constructed_profile(figures, _CREATED)
    source = traffic(sl, rate, MIDDLE, base, _REQUESTS, 0, _LENGTH)
    assumed = drawn_figures(figures)
    drawn = [
        constructed_profile(figures, _CREATED, dict(zip([each.name for each in assumed], row, strict=True)))
        for row in factors(assumed, _POWER, 0).tolist()
    ]
    setting = Setting(source, base, CONCURRENCY)
    found = [_steps(replace(setting, profile=profile), arm) for profile in (base, *drawn)]
    without_us = np.array([(lag - free) / NS_PER_US for lag, free, _ in found])
    gains = np.array([lag / moved - 1 for lag, _, moved in found])
    return Exposed(
        arm=arm,
        sl=sl,
        moved_us=_build_us(base, sl),
        exposed_us=float(without_us[0]),
        drawn_us=without_us[1:],
        overlap_gain=float(gains[0]),
        drawn_gains=gains[1:],
        by_draft_us={ms: _with_draft(setting, arm, ms) for ms in DRAFT_MS},
    )


def _with_draft(setting: Setting, arm: str, ms: float) -> float:
    profile = with_changes(setting.profile, [f"device.draft={ms:g}ms", "sample=0", "sample_tokens=0"])
    lag, free, _ = _steps(replace(setting, profile=profile), arm)
    return (lag - free) / NS_PER_US


def _steps(setting: Setting, arm: str) -> tuple[float, float, float]:
    """Mean ns of a full step: under lag, with its build taking no time, and under lag-overlap."""
    free = replace(setting, profile=with_changes(setting.profile, ["build_varlen=0"]))
    lag, overlap = resolve_placement(arm), resolve_placement(f"{arm}-overlap")
    cells = run_cells([(setting, lag), (free, lag), (setting, overlap)])
    first, second, third = (each[0].step_ns for each in cells)
    return first, second, third


def _build_us(profile: Profile, sl: int) -> float:
    cost = profile.decode.host["build_varlen"].pre
    sizes = {"batch": CONCURRENCY, "dense_rows": CONCURRENCY * (sl + 1)}
    return cost.predict(sizes) / NS_PER_US

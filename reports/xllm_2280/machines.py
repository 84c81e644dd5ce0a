"""The machines that the answers are given for: the one recorded, that one out of balance either way, and the NPU of
the pull request as far as published figures tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from simtool import Profile, Trace, calibrate, with_proxies
from simtool.calibrate.bootstrap import REFITS
from simtool.profile.cost import Cost
from simtool.profile.published import constructed_profile
from simtool.study.full_batch import workload
from simtool.study.runner import Setting
from xllm_2280.balance import balanced, host_over_device
from xllm_2280.load import Load

_CONCURRENCY = 8  # at which the balance is set
_RESIDUALS = 512  # kept of each cost, so that a profile stays a small file


class MachineKind(StrEnum):
    """Where a machine's costs come from: a recording, that with another balance, or published figures."""

    RECORDED = "recorded"
    DEVICE_BOUND = "device-bound"
    HOST_BOUND = "host-bound"
    PUBLISHED = "published"


#: Host time over device time of a step, by the name of the machine that is given this balance.
BALANCES = {MachineKind.DEVICE_BOUND: 0.1, MachineKind.HOST_BOUND: 2.0}


@dataclass(frozen=True)
class StudiedMachine:
    """A profile, what it stands for, and host time over device time of a step at concurrency 8."""

    kind: MachineKind
    profile: Profile
    what: str
    balance: float


def machines(traces: Sequence[Trace], source: Trace, figures: Path | None, created: str) -> list[StudiedMachine]:
    """Calibrate the recorded machine from live traces of one load, and derive the others from it.

    figures: TOML of published figures for one more machine. created: ISO date.
    """
    slug = Load.of(source).slug
    costs = calibrate(traces, name=f"measured-{slug}", command="simtool answers", created=created, refits=REFITS)
    measured = with_proxies(costs).each_cost(_cut)
    setting = Setting(workload(source, _CONCURRENCY, 2), measured, _CONCURRENCY)
    found = [
        StudiedMachine(
            MachineKind.RECORDED, measured, f"as recorded: {measured.device_name}", host_over_device(setting)
        )
    ]
    for kind, ratio in BALANCES.items():
        profile = balanced(setting, ratio, f"{kind}-{slug}")
        found.append(StudiedMachine(kind, profile, profile.provenance.changes[-1], _ratio(setting, profile)))
    if figures is not None:
        profile = constructed_profile(figures, created)
        found.append(StudiedMachine(MachineKind.PUBLISHED, profile, profile.device_name, _ratio(setting, profile)))
    return found


def profile_names(load: Load, figures: Path | None, created: str) -> list[str]:
    """Return the names of the profiles that `machines` makes for the traces of one load."""
    constructed = [] if figures is None else [constructed_profile(figures, created).name]
    return [f"measured-{load.slug}", *(f"{name}-{load.slug}" for name in BALANCES), *constructed]


def _ratio(setting: Setting, profile: Profile) -> float:
    return host_over_device(replace(setting, profile=profile))


def _cut(cost: Cost) -> Cost:
    return replace(cost, residuals_ns=cost.residuals_ns[-_RESIDUALS:])

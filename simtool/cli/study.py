"""What the commands that take many replays share: their options, how they open a trace and its costs, and what their
figures rest on.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli import console
from simtool.cli.costs import costs_for
from simtool.cli.opening import open_sound
from simtool.errors import UsageError
from simtool.step.placement import Placement, resolve_placement

if TYPE_CHECKING:
    from simtool.calibrate.profile import Profile
    from simtool.replay.caveats import Caveats
    from simtool.study.cells import Setting
    from simtool.trace.bundle import Bundle

Trace = Annotated[Path, typer.Argument(help="The bundle whose requests and outcomes are replayed.")]
ProfileOption = Annotated[Path | None, typer.Option(help="Costs; default: calibrated from the trace itself.")]
Concurrencies = Annotated[
    str | None, typer.Option("--concurrency", help="Requests at once, one or several: 1,4,16; default: the trace's.")
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Change a cost first, as in replay. May be repeated."),
]
Waves = Annotated[
    int | None, typer.Option(help="Requests that each slot serves, cut or queued again; default: the trace once.")
]
Seeds = Annotated[int, typer.Option(help="Replays with noise of each order, for the intervals; 0: no noise.")]
NoiseOnly = Annotated[
    bool,
    typer.Option("--noise-only", help="Intervals of the noise alone, at the fitted costs: not of the fit's error."),
]
Jobs = Annotated[int | None, typer.Option(help="Processes; default: one a core.")]
FigureOption = Annotated[Path | None, typer.Option(help="Also draw it, into this HTML file.")]

_STEPS = "averaged over decode steps at the full batch, as replay's steady tok/s (its step: over all decode steps)"


def numbers(text: str | None, default: int) -> list[int]:
    """Parse "1,4,16"; raises UsageError on anything else."""
    if text is None:
        return [default]
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"{text!r} is not a list of whole numbers; expected something like 1,4,16") from error
    return list(dict.fromkeys(found))


def shares(text: str) -> list[float]:
    """Parse "0,0.1,0.2"; raises UsageError on anything but shares."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"{text!r} is not a list of shares; expected something like 0,0.1,0.2") from error
    if not all(0 <= share <= 1 for share in found):
        raise UsageError(f"{text!r}: expected shares from 0 to 1")
    return list(dict.fromkeys(found))


def processes(jobs: int | None) -> int:
    """Return how many processes to use."""
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs {jobs}: expected 1 or more")
    return jobs or os.cpu_count() or 1


def placements(policies: Sequence[str]) -> list[Placement]:
    """Resolve names and files; two of one name are refused."""
    found = [resolve_placement(policy) for policy in dict.fromkeys(policies)]
    if len({placement.name for placement in found}) < len(found):
        raise UsageError("two placements have the same name; give each file its own `name`")
    return found


def open_trace(path: Path, profile: Path | None, changes: Sequence[str] = ()) -> tuple[Bundle, Profile]:
    """Open a trace and its costs, and say whose predictor the controller uses."""
    from simtool.calibrate.fit import REFITS
    from simtool.study.cells import controller_of

    bundle = open_sound(path)
    costs = costs_for(bundle, profile, changes, REFITS)
    if costs.predictor is not None:
        console.note("controller: the profile's predictor, as with replay --predictor profile")
    elif controller_of(bundle, costs).predictor is not None:
        console.note("controller: the trace's predictor, the profile has none")
    else:
        console.note("warning: no predictor, so every verify counts 1 ms and pruning gains nothing")
    return bundle, costs


def settings_of(
    source: Bundle,
    profile: Profile,
    concurrencies: Sequence[int],
    waves: int | None,
    *,
    seeds: int = 0,
    noise_only: bool = False,
) -> list[Setting]:
    """Return one setting a concurrency; raises UsageError when the requests cannot fill it, or refits the seeds."""
    from simtool.study.cells import Setting
    from simtool.study.sweep import seeds_of
    from simtool.study.workload import workload

    return [
        Setting(workload(source, concurrency, waves), profile, concurrency, seeds_of(seeds), not noise_only)
        for concurrency in concurrencies
    ]


def basis(setting: Setting) -> str:
    """Say which steps are averaged, and what the intervals cover."""
    return f"{_STEPS}; {covered(setting)}"


def covered(setting: Setting) -> str:
    """Say what an interval of this setting covers."""
    count = len(setting.seeds)
    if not count:
        return "no noise, at the fitted costs: an interval, where there is one, covers the run's own steps only"
    if count == 1:
        return "one draw of noise" + (" and of refitted costs" if setting.refitted else "") + ": no interval"
    if setting.refitted:
        return (
            f"95 % intervals cover noise and the error of the fit ({count} draws, each with costs refitted to "
            "resampled steps); not other prompts, not what the cost model leaves out"
        )
    why = "--noise-only" if not setting.fit_error else f"{setting.profile.name} holds no refits; calibrate it anew"
    return f"95 % intervals cover noise only ({count} seeds), not the error of the fit: {why}"


def warn(caveats: Caveats, label: str = "") -> None:
    """Print what replays warn of, in the words of `simtool replay`."""
    for line in caveats.lines():
        console.note(f"warning: {label}{': ' if label else ''}{line}")

"""What the commands that take many replays share: their options, and how they open a trace and its costs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli.costs import costs_for
from simtool.errors import UsageError
from simtool.step.placement import Placement, resolve_placement

if TYPE_CHECKING:
    from simtool.calibrate.profile import Profile
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
Jobs = Annotated[int | None, typer.Option(help="Processes; default: one a core.")]
FigureOption = Annotated[Path | None, typer.Option(help="Also draw it, into this HTML file.")]


def numbers(text: str | None, default: int) -> list[int]:
    """Parse "1,4,16"; raises UsageError on anything else."""
    if text is None:
        return [default]
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"{text!r} is not a list of whole numbers; expected something like 1,4,16") from error
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
    """Open a trace and its costs."""
    from simtool.trace.bundle import open_bundle

    bundle = open_bundle(path)
    return bundle, costs_for(bundle, profile, changes)


def settings_of(
    source: Bundle, profile: Profile, concurrencies: Sequence[int], seeds: int, waves: int | None
) -> list[Setting]:
    """Return one setting a concurrency; raises UsageError when the requests cannot fill it."""
    from simtool.study.cells import Setting
    from simtool.study.sweep import seeds_of
    from simtool.study.workload import workload

    return [
        Setting(workload(source, concurrency, waves), profile, concurrency, seeds_of(seeds))
        for concurrency in concurrencies
    ]

"""Options and exit statuses that every command shares."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer._click.core import Context, ParameterSource
from typer._click.globals import get_current_context

from simtool.cli.registry import COMMANDS
from simtool.errors import UsageError
from simtool.files.writing import Claim
from simtool.step.placement import Placement
from simtool.units import TimeUnit

#: Options that say where to write: every other path that a command is given is read.
_WRITTEN = frozenset({"out", "figure", "page", "report", "save", "profiles"})
#: Where a command's context keeps the places that it will write.
_CLAIMED = "simtool.claimed"
#: Exit statuses besides 0. A command that ends well but found something raises `typer.Exit(FINDING)`.
FINDING = 1
BAD_USE = 2

VerboseFlag = Annotated[
    bool, typer.Option("--verbose", help="Also list every cost that was priced beyond the calibrated sizes.")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
ForceFlag = Annotated[bool, typer.Option("--force", help="Replace an output that is already there.")]
OutPath = Annotated[Path | None, typer.Option("--out", help="Where to write; default: named after the input.")]
TimeUnitOption = Annotated[TimeUnit | None, typer.Option(help="What a request trace's numeric timestamps count, where "
                                                         "the file does not say.")]  # fmt: skip
SimulatorOption = Annotated[
    Literal["simpy", "compiled"] | None,
    typer.Option("--simulator", help="simpy: the model to read and trust; compiled: its equal to the ns, for many "
                 "replays. Default: compiled for studies and --seeds, simpy for a replay or two."),
]  # fmt: skip
OtherModelFlag = Annotated[
    bool, typer.Option("--allow-other-model", help="Let costs of other models than the trace's price it.")
]
Traces = Annotated[list[Path], typer.Argument(metavar="TRACE...", help="Traces (folders).")]


def command_line() -> str:
    """Return the command under way as it would be typed again, for a manifest or a page to keep."""
    return shlex.join(["simtool", *sys.argv[1:]])


def options_given() -> list[str]:
    """Return the names of the options that were typed, in the command's order."""
    context = get_current_context(silent=True)
    if context is None:
        return []
    typed = ParameterSource.COMMANDLINE
    return [name for name in context.params if context.get_parameter_source(name) is typed]


def command_name() -> str:
    """Return the command under way without its options, such as "simtool sweep", for a profile to keep."""
    name = next((word for word in sys.argv[1:] if word in COMMANDS), None)
    return f"simtool {name}" if name else "simtool"


def check_output(path: Path, *, force: bool) -> None:
    """Claim `path` until the command ends, before any work is spent.

    Raises UsageError where it would overwrite something without `force`, or even with it what the command reads,
    another of its outputs or a file of a trace; OutputError where nothing can be written or another process is at it.
    A device or a pipe is written through, so it needs no `force`.
    """
    context = get_current_context(silent=True)
    if context is not None and (path.is_file() or path.is_dir() or not path.exists()):
        _check_apart(path, context)
    if (path.is_file() or path.is_dir()) and not force:
        raise UsageError(f"{path} is already there; pass --force to replace it, or --out to write elsewhere")
    claim = Claim(path)
    if context is None:
        claim.release()
    else:
        context.call_on_close(claim.release)


def _check_apart(path: Path, context: Context) -> None:
    place = path.resolve()
    claimed: set[Path] = context.meta.setdefault(_CLAIMED, set())
    if place in claimed:
        raise UsageError(f"{path} is given for two outputs; give each a place of its own")
    claimed.add(place)
    for name, value in context.params.items():
        for given in value if isinstance(value, list | tuple) else (value,):
            is_file = isinstance(given, Path) or (isinstance(given, str) and "." in given)
            if name not in _WRITTEN and is_file and path.exists() and Path(given).resolve() == place:
                raise UsageError(f"{path} is what this command reads; write elsewhere")
    if path.suffix in (".json", ".parquet"):
        from simtool.trace.folder import is_file_of_trace

        if is_file_of_trace(place):
            raise UsageError(f"{path} is a file of the trace {path.parent}; write elsewhere")


def check_distinct(paths: Sequence[Path]) -> None:
    """Refuse a trace given twice: it would count as a repetition."""
    resolved = [path.resolve() for path in paths]
    for path, full in zip(paths, resolved, strict=True):
        if resolved.count(full) > 1:
            raise UsageError(f"{path} is given twice; give each trace once")


def check_trace_output(path: Path, *, force: bool) -> None:
    """Refuse a path that no trace can be written to, or only over something else, before any work is spent."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path}: is a file; give the name of a folder to write the trace to")
    check_output(path, force=force)
    if path.exists() and any(path.iterdir()):
        from simtool.trace.manifest import read_manifest

        read_manifest(path)  # a folder of other files is no trace, and --force does not empty it


def check_controller(placements: Sequence[Placement], options: Mapping[str, float | str | None]) -> None:
    """Refuse options of the controller (None: not given) where nothing decides, a number below 0, and a gain of 1
    or more, which means a percentage.

    options: by name, such as "--draft-ms". Raises UsageError.
    """
    for option, value in options.items():
        if value is None:
            continue
        setting = option.removeprefix("--").replace("-", "_")
        if not any(placement.decides and setting in placement.rule.reads for placement in placements):
            names = ", ".join(placement.name for placement in placements)
            raise UsageError(f"{option} has no effect on {names}; leave it out, or give a policy that reads it")
        if isinstance(value, float) and not 0 <= value < math.inf:
            raise UsageError(f"{option} is {value}; expected 0 or more")
        if option == "--min-gain" and isinstance(value, float) and value >= 1:
            raise UsageError(f"{option} is {value}; expected a share below 1, such as 0.05 for 5 %")

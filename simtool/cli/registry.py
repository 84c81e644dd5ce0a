"""Which commands there are and where each lives. A command's module is imported only when its name is typed."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from simtool.cli.numbers import Mode, PlainNumbers, check_bounds
from simtool.errors import UsageError, did_you_mean
from simtool.files.writing import expanded

if TYPE_CHECKING:
    from typer._click import Command


#: How many more objects there are before Python looks for garbage in a command that times nothing.
_ALLOCATIONS = 50_000


@dataclass(frozen=True)
class Listed:
    """A command: "module:function", and its line in `simtool --help`, which 62 characters fit into.

    finding: when it exits 1; empty: never. modes: flag -> what the command is beside it. timed: whether it times what
    it runs, as the engine does: then Python collects its garbage as it always does.
    """

    target: str
    help: str
    finding: str = ""
    modes: Mapping[str, Mode] = field(default_factory=dict)
    timed: bool = False


#: Command name -> where it is and what it does, in the order of `simtool --help`. A command's module imports heavy
#: packages (polars, plotly, torch, simpy) inside its functions, so that --help stays quick.
COMMANDS = {
    "record": Listed("simtool.cli.commands.traces.record:record", "Run the models live and write a trace", timed=True),
    "import": Listed(
        "simtool.cli.commands.traces.import_:import_",
        "Turn a profiler's output or a request trace into a trace",
        "some of the input was broken, and left out",
    ),
    "inspect": Listed(
        "simtool.cli.commands.traces.inspect:inspect",
        "Show what a trace holds and check it",
        "a trace contradicts itself: an error or a warning, not a note",
    ),
    "fill": Listed(
        "simtool.cli.commands.traces.fill:fill",
        "Add the drafter's outcome at every position of a recording",
        "outcomes seen live differ from those computed again",
        timed=True,
    ),
    "advise": Listed(
        "simtool.cli.commands.replays.advise:advise",
        "Say which placement to turn on, and what it gains",
        "it cannot be told, or the machine was too busy to trust",
    ),
    "synth": Listed("simtool.cli.commands.traces.synth:synth", "Draw a trace from a stated acceptance and confidence"),
    "validate": Listed(
        "simtool.cli.commands.replays.validate:validate",
        "Compare the replay's predictions with live measurements",
        "a live run differs from its replay, and rounding does not explain it",
        {
            "--published": Mode(
                "Predict what others published from what else they published, and say how far off that is.",
                ("published", "out", "json", "force"),
            )
        },
        timed=True,
    ),
    "compare": Listed(
        "simtool.cli.commands.replays.compare:compare",
        "Compare traces: which is faster, by how much, how sure",
        "nothing can be told, the machine was too busy, or the traces are not alike enough",
    ),
    "power": Listed("simtool.cli.commands.replays.power:power", "Say how many repetitions would tell a difference"),
    "calibrate": Listed(
        "simtool.cli.commands.replays.calibrate:calibrate", "Fit what every op costs and write a profile"
    ),
    "profile": Listed("simtool.cli.commands.replays.profile:profile", "Make a profile from published figures"),
    "replay": Listed(
        "simtool.cli.commands.replays.replay:replay",
        "Replay a recording under other placements",
        "a placement of --policy all was left out, for the costs lack one of its ops",
    ),
    "why": Listed("simtool.cli.commands.studies.why:why", "Say why a placement is faster than another, or not"),
    "sweep": Listed(
        "simtool.cli.commands.studies.sweep:sweep",
        "Replay a grid of placements, concurrencies and seeds",
        "a point of the grid could not be replayed, and has no row",
    ),
    "search": Listed(
        "simtool.cli.commands.studies.search:search",
        "Find the best legal order of the host's work",
        "some orders were not tried, for the costs lack one of their ops",
    ),
    "tornado": Listed(
        "simtool.cli.commands.studies.tornado:tornado", "Show what each op is worth: free, halved or moved"
    ),
    "break-even": Listed(
        "simtool.cli.commands.studies.break_even:break_even", "Show how much acceptance an older confidence may cost"
    ),
    "lags": Listed("simtool.cli.commands.studies.lags:lags", "Show what an older confidence costs in acceptance"),
    "answers": Listed("xllm_2280.command:answers", "Answer the questions of xLLM pull request 2280"),
    "report": Listed(
        "simtool.cli.commands.replays.report:report", "Write an HTML page with the answer and its figures"
    ),
    "what-if": Listed(
        "simtool.cli.commands.studies.what_if:what_if", "Write a page on which a step's costs and order are tried"
    ),
    "export": Listed("simtool.cli.commands.traces.export:export", "Write a trace for Perfetto or another viewer"),
    "placements": Listed(
        "simtool.cli.commands.studies.placements:placements", "List the placements, or check one of your own"
    ),
    "policies": Listed(
        "simtool.cli.commands.studies.policies:policies", "List the rules that decide verify lengths, or show one"
    ),
    "first-run": Listed(
        "simtool.cli.commands.traces.first_run:first_run",
        "Try a new host's device; one report to send back",
        "a check is wrong or refused",
        timed=True,
    ),
    "doctor": Listed(
        "simtool.cli.commands.traces.doctor:doctor",
        "Check Python, packages and devices",
        "something is broken; what is only absent is fine",
        timed=True,
    ),
}


#: What `validate --published` runs, a study of its own.
PUBLISHED = "published_runs.command:published"


def load_target(target: str) -> Callable[..., None]:
    """Import "module:function" and return the function."""
    module, _, function = target.partition(":")
    found: Callable[..., None] = getattr(import_module(module), function)
    return found


class LazyCommands(TyperGroup):
    """The command group that looks names up in COMMANDS."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return the command names in listing order."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Command | None:
        """Import one command and return it. Raises UsageError with the nearest name when there is none."""
        listed = COMMANDS.get(cmd_name)
        if listed is None:
            if ctx.resilient_parsing:  # a word under completion is not a mistake yet
                return None
            raise UsageError(f"no command {cmd_name!r}; `simtool --help` lists them{did_you_mean(cmd_name, COMMANDS)}")
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        command = _checked(load_target(listed.target), timed=listed.timed)
        kind = type("Command", (PlainNumbers,), {"modes": listed.modes})
        single.command(cmd_name, cls=kind, short_help=listed.help)(command)
        return typer.main.get_command(single)


def _checked(command: Callable[..., None], *, timed: bool) -> Callable[..., None]:
    """The command with its numbers held to their bounds, and with a leading ~ in any path as the home folder, which a
    shell leaves in `--out=~/run`.
    """

    @wraps(command)
    def run(**given: Any) -> None:
        check_bounds(given)
        with nullcontext() if timed else _few_collections():
            command(**{name: _expanded(value) for name, value in given.items()})

    return run


@contextmanager
def _few_collections() -> Iterator[None]:
    """Search for garbage rarely: by default Python walks what a command imports time and again, and finds nothing."""
    before = gc.get_threshold()
    gc.set_threshold(_ALLOCATIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _expanded(value: Any) -> Any:
    if isinstance(value, Path):
        return expanded(value)
    return [_expanded(each) for each in value] if isinstance(value, list) else value

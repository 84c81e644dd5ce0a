"""Which commands there are and where each lives. A command's module is imported only when its name is typed."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from simtool.errors import UsageError, did_you_mean
from simtool.files.writing import expanded

if TYPE_CHECKING:
    from typer._click import Command

#: Command name -> "module:function", in the order that `simtool --help` lists them. A command's module imports
#: heavy packages (polars, plotly, torch, simpy) inside its functions, so that --help stays quick.
COMMANDS = {
    "record": "simtool.cli.commands.traces.record:record",
    "import": "simtool.cli.commands.traces.import_:import_",
    "inspect": "simtool.cli.commands.traces.inspect:inspect",
    "fill": "simtool.cli.commands.traces.fill:fill",
    "advise": "simtool.cli.commands.replays.advise:advise",
    "validate": "simtool.cli.commands.replays.validate:validate",
    "compare": "simtool.cli.commands.replays.compare:compare",
    "calibrate": "simtool.cli.commands.replays.calibrate:calibrate",
    "profile": "simtool.cli.commands.replays.profile:profile",
    "replay": "simtool.cli.commands.replays.replay:replay",
    "sweep": "simtool.cli.commands.studies.sweep:sweep",
    "search": "simtool.cli.commands.studies.search:search",
    "tornado": "simtool.cli.commands.studies.tornado:tornado",
    "break-even": "simtool.cli.commands.studies.break_even:break_even",
    "lags": "simtool.cli.commands.studies.lags:lags",
    "answers": "xllm_2280.command:answers",
    "report": "simtool.cli.commands.replays.report:report",
    "export": "simtool.cli.commands.traces.export:export",
    "placements": "simtool.cli.commands.studies.placements:placements",
    "doctor": "simtool.cli.commands.traces.doctor:doctor",
}


class LazyCommands(TyperGroup):
    """The command group that looks names up in COMMANDS."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return the command names in listing order."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Command | None:
        """Import one command and return it. Raises UsageError with the nearest name when there is none."""
        target = COMMANDS.get(cmd_name)
        if target is None:
            if ctx.resilient_parsing:  # a word under completion is not a mistake yet
                return None
            raise UsageError(f"no command {cmd_name!r}; `simtool --help` lists them{did_you_mean(cmd_name, COMMANDS)}")
        module, _, function = target.partition(":")
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(cmd_name)(_at_home(getattr(import_module(module), function)))
        return typer.main.get_command(single)


def _at_home(command: Callable[..., None]) -> Callable[..., None]:
    """The command with a leading ~ in any path as the home folder, which a shell leaves in `--out=~/run`."""

    @wraps(command)
    def run(**given: Any) -> None:
        command(**{name: _expanded(value) for name, value in given.items()})

    return run


def _expanded(value: Any) -> Any:
    if isinstance(value, Path):
        return expanded(value)
    return [_expanded(each) for each in value] if isinstance(value, list) else value

"""Which commands there are and where each lives. A command's module is imported only when its name is typed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from typer._click import Command

#: Command name -> "module:function", in the order that `simtool --help` lists them. A command's module imports
#: heavy packages (polars, plotly, torch, simpy) inside its functions, so that --help stays quick.
COMMANDS = {
    "record": "simtool.cli.record:record",
    "import": "simtool.cli.import_:import_",
    "inspect": "simtool.cli.inspect:inspect",
    "fill": "simtool.cli.fill:fill",
    "validate": "simtool.cli.validate:validate",
    "compare": "simtool.cli.compare:compare",
    "calibrate": "simtool.cli.calibrate:calibrate",
    "replay": "simtool.cli.replay:replay",
    "sweep": "simtool.cli.sweep:sweep",
    "search": "simtool.cli.search:search",
    "tornado": "simtool.cli.tornado:tornado",
    "break-even": "simtool.cli.break_even:break_even",
    "lags": "simtool.cli.lags:lags",
    "answers": "simtool.cli.answers:answers",
    "report": "simtool.cli.report:report",
    "export": "simtool.cli.export:export",
    "placements": "simtool.cli.placements:placements",
    "doctor": "simtool.cli.doctor:doctor",
}


class LazyCommands(TyperGroup):
    """The command group that looks names up in COMMANDS."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return the command names in listing order."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Command | None:
        """Import one command and return it, or None when there is no such name."""
        target = COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, _, function = target.partition(":")
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(cmd_name)(getattr(import_module(module), function))
        return typer.main.get_command(single)

"""The entry point: commands by name, and the one place where an error becomes a line and an exit status."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from types import FrameType
from typing import Annotated

import typer

from simtool.cli.options import BAD_USE
from simtool.cli.registry import LazyCommands
from simtool.errors import SimtoolError, Terminated
from simtool.files.names import one_line
from simtool.version import __version__

#: Exit statuses of a process that a signal ended, as shells count them; the first is also what typer makes of Ctrl-C.
_INTERRUPTED = 128 + signal.SIGINT
_TERMINATED = 128 + signal.SIGTERM
_UNREAD = 128 + signal.SIGPIPE
#: What to do about a failed file operation, by its number.
_REMEDIES: Mapping[int | None, str] = {
    errno.ENOSPC: "make room there, or write elsewhere",
    errno.EDQUOT: "make room there, or write elsewhere",
    errno.EFBIG: "write elsewhere",
}
_CHECK = "check the path and its permissions"
#: What the engine imports, and the extra that brings it.
_EXTRAS = {"torch": "engine", "safetensors": "engine", "tokenizers": "engine", "torch_npu": "npu"}

app = typer.Typer(
    cls=LazyCommands,
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _simtool(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Where in the decode step should the verify-length decision sit, and what does that placement really buy?

    record a live run, calibrate its costs, replay it under any placement, compare, report. Exit status: 0 done or
    answered, 1 a finding or no answer to act on, 2 bad use.
    """
    if version:
        typer.echo(f"simtool {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit status; an unexpected exception passes through, with its traceback."""
    try:
        status = app(arguments, prog_name="simtool", standalone_mode=False)
        sys.stdout.flush()
    except typer.Abort:
        status = _INTERRUPTED
    except BrokenPipeError:
        # whoever read the output has enough; what is left in the buffer has no reader
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _UNREAD
    except Terminated as error:
        return _complain(f"stopped by {error}", _TERMINATED)
    except (SimtoolError, typer.TyperException, OSError, ModuleNotFoundError, MemoryError) as error:
        return _complain(_reason(error))
    if status == _INTERRUPTED:
        _complain("stopped by Ctrl-C")
    return status if isinstance(status, int) else 0


def main() -> None:
    """Console entry point. SIGTERM ends a command as Ctrl-C does: devices are closed and traces left readable."""
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run(sys.argv[1:]))


def _reason(error: Exception) -> str:
    """One line for an error that is the caller's, or the machine's, to mend; any other is raised again."""
    if isinstance(error, typer.TyperException):
        return _with_help_hint(error)
    if isinstance(error, MemoryError):
        return "not enough memory for that; ask for less: fewer requests, seeds or processes"
    if isinstance(error, OSError):
        what = error.filename if error.filename is not None else "standard output"
        return f"{what}: {error.strerror or error}; {_REMEDIES.get(error.errno, _CHECK)}"
    if isinstance(error, ModuleNotFoundError):
        extra = _EXTRAS.get(error.name or "")
        if extra is None:
            raise error
        remedy = f"pip install -e '.[{extra}]' in a checkout"
        return f"{error.name} is not installed and this command needs it: {remedy}"
    return str(error)


def _terminate(number: int, _frame: FrameType | None) -> None:
    raise Terminated(signal.Signals(number).name)


def _complain(message: str, status: int = BAD_USE) -> int:
    with suppress(OSError):  # it is full or closed: the status tells
        print(f"simtool: {one_line(message)}", file=sys.stderr, flush=True)
    return status


def _with_help_hint(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "simtool"
    return f"{error.format_message().rstrip('.')}; see '{command} --help'"

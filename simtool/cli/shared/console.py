"""What a command prints: tables and notes for people, one JSON document for machines, progress for a terminal.

The tables themselves come from simtool.report.terminal.tables; `show` fits them to the terminal.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from typer._click.globals import get_current_context

from simtool.cli.shared.estimate import Estimate, told_before
from simtool.files.names import one_line
from simtool.progress import Expected

if TYPE_CHECKING:
    from rich.console import Console

    from simtool.cli.documents.record import JsonDocument
    from simtool.report.terminal.tables import TextTable


#: Where a command's context keeps the notes that stand behind its result.
_AFTER = "simtool.notes"
#: What JSON may hold as it is, but a terminal obeys or cannot encode: C1 controls, surrogates, line separators.
_UNPRINTABLE = re.compile("[\x7f-\x9f\ud800-\udfff\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def show(table: TextTable) -> None:
    """Print a table, laid out for the width of the terminal; piped: COLUMNS, else the terminal it came from, else 80.

    An unbroken number wider than that runs over the edge.
    """
    from simtool.report.terminal.tables import drawn, laid_out

    console = _console()
    if table.title:
        say(table.title, style="italic")
    for part in laid_out(table, console.width):
        console.width = max(console.width, part.width)
        console.print(drawn(part))
        console.print()


def say(text: str, *, style: str = "") -> None:
    """Print a sentence: wrapped between words on a terminal, whole when piped. style: as in rich, such as bold."""
    _console().print(one_line(text), style=style, soft_wrap=not sys.stdout.isatty())


def line(text: str) -> None:
    """Print a line as it is, but for what a terminal would obey."""
    print(one_line(text))


def emit(document: JsonDocument) -> None:
    """Print one JSON document; NaN and infinity are refused, because other readers refuse them."""
    from simtool.cli.documents.record import plain

    text = json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False)
    print(_UNPRINTABLE.sub(lambda letter: f"\\u{ord(letter.group()):04x}", text))


def _console() -> Console:
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:  # rich would end the process here, before files are closed
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    return Plain(highlight=False, markup=False)


def note(message: str) -> None:
    """Print a line for people on standard error, away from what is piped; a terminal wraps it between words."""
    sys.stdout.flush()  # what was printed before stands before it, where both go to one place
    message = one_line(message)
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        message = textwrap.fill(message, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    print(message, file=sys.stderr)


def after(message: str) -> None:
    """Print a note behind the result: when the command under way ends. Outside of any: at once."""
    context = get_current_context(silent=True)
    if context is None:
        note(message)
        return
    kept: list[str] | None = context.meta.get(_AFTER)
    if kept is None:
        kept = context.meta[_AFTER] = []
        context.call_on_close(partial(_tell_all, kept))
    kept.append(message)


def _tell_all(messages: list[str]) -> None:
    for message in messages:
        note(message)


@contextmanager
def progress(description: str, total: int, expected: Expected | None = None) -> Iterator[Callable[[int], None]]:
    """Show progress on a terminal, and anywhere a line when it will take minutes. Yields what sets how much is done.

    expected: what it will take, where that is known: then the line stands before the work too.

    >>> with progress("replaying", total=4) as done:  # doctest: +SKIP
    ...     done(1)
    """
    _tell(told_before(description, expected))
    estimate = Estimate(description, total)
    if not sys.stderr.isatty():
        yield lambda completed: _tell(estimate.heard(completed))
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)

        def done(completed: int) -> None:
            bar.update(task, completed=completed)
            _tell(estimate.heard(completed))

        yield done


def _tell(line: str | None) -> None:
    if line is not None:
        note(line)

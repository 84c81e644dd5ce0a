"""What a command prints: tables and notes for people, one JSON document for machines, progress for a terminal.

The tables themselves come from simtool.report.terminal.tables; `show` fits them to the terminal.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simtool.report.terminal.tables import TextTable


def show(table: TextTable) -> None:
    """Print a table, laid out for the width of the terminal; piped: COLUMNS, else the terminal it came from, else 80.

    An unbroken number wider than that runs over the edge.
    """
    from rich.console import Console

    from simtool.report.terminal.tables import drawn, laid_out

    console = Console(highlight=False, markup=False)
    if table.title:
        say(table.title, style="italic")
    for part in laid_out(table, console.width):
        console.width = max(console.width, part.width)
        console.print(drawn(part))
        console.print()


def say(text: str, *, style: str = "") -> None:
    """Print a sentence: wrapped between words on a terminal, whole when piped. style: as in rich, such as bold."""
    from rich.console import Console

    Console(highlight=False, markup=False).print(text, style=style, soft_wrap=not sys.stdout.isatty())


def emit_json(value: object) -> None:
    """Print one JSON document; NaN and infinity are refused, because other readers refuse them."""
    print(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))


def note(message: str) -> None:
    """Print a line for people on standard error, away from what is piped; a terminal wraps it between words."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        message = textwrap.fill(message, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    print(message, file=sys.stderr)


@contextmanager
def progress(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show progress on a terminal, nothing otherwise. Yields a function that sets how much is done.

    >>> with progress("replaying", total=4) as done:  # doctest: +SKIP
    ...     done(1)
    """
    if not sys.stderr.isatty():
        yield lambda _completed: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda completed: bar.update(task, completed=completed)

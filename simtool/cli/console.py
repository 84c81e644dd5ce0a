"""What a command prints: tables and notes for people, one JSON document for machines, progress for a terminal.

The tables themselves come from simtool.report.terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_PIPED_WIDTH = 200


def stdout() -> Console:
    """Return a console on standard output; piped, it is plain text and wide enough for any table."""
    from rich.console import Console

    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)


def emit_json(value: object) -> None:
    """Print one JSON document; NaN and infinity are refused, because other readers refuse them."""
    print(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))


def note(message: str) -> None:
    """Print a line for people on standard error, where it does not disturb what is piped."""
    print(message, file=sys.stderr)


@contextmanager
def progress(description: str, total: int | None) -> Iterator[Callable[[int], None]]:
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

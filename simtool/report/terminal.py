"""Tables for a terminal. Numbers arrive as text: the caller knows their unit and how many digits they deserve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, numbers_from: int = 1) -> Table:
    """Build a table; columns from `numbers_from` on are right-aligned."""
    from rich import box
    from rich.table import Table

    result = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for index, column in enumerate(columns):
        result.add_column(column, justify="right" if index >= numbers_from else "left", overflow="fold")
    for row in rows:
        result.add_row(*row)
    return result

"""Tables for a terminal. Numbers arrive as text: the caller knows their unit and how many digits they deserve.

A cell that holds a number is never broken. A table too wide for its terminal first wraps its headings, then its prose,
between words; then it is turned on its side, rows as columns, or its columns are spread over several tables.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simtool.files.names import shown

if TYPE_CHECKING:
    from rich.table import Table

_GAP = 2
_PROSE = 28  # a cell beyond so many characters that has spaces is prose
_NARROWEST = 12  # of a column of prose
_UNIT = re.compile(r"(?<=\d) (?=(?:ns|us|ms|s|%)\b|%)")
_GLUE = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class TextTable:
    """A table before it is laid out. Columns before `numbers_from` say what a row is; the others are right-aligned."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers_from: int = 1

    @property
    def widths(self) -> list[int]:
        """Characters of each column: its longest line, the heading's included."""
        return [_width(cells) for cells in zip(self.columns, *self.rows, strict=True)]

    @property
    def width(self) -> int:
        """Characters of the whole."""
        return sum(self.widths) + _GAP * (len(self.columns) - 1)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, numbers_from: int = 1) -> TextTable:
    """Build a table; columns from `numbers_from` on are right-aligned."""
    cells = tuple(tuple(map(shown, row)) for row in rows)
    return TextTable(shown(title), tuple(map(shown, columns)), cells, numbers_from)


def laid_out(whole: TextTable, width: int) -> list[TextTable]:
    """Return the table as one or more that fit into `width` characters, as far as unbroken numbers allow."""
    if whole.width <= width:
        return [whole]
    narrow = _with_heads_wrapped(whole)
    wrapped = _with_prose_wrapped(whole, width) or _with_prose_wrapped(narrow, width)
    if wrapped is not None:
        return [wrapped]
    if len(whole.rows) > len(whole.columns) - whole.numbers_from:
        parts = list(_spread(narrow, width))
        if all(part.width <= width for part in parts):
            return parts
    return list(_turned(whole, width))


def drawn(laid: TextTable) -> Table:
    """Return the table for a rich console; give it a width of at least `laid.width`."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    result = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    for index, column in enumerate(laid.columns):
        justify = "left" if index < laid.numbers_from or _is_prose(laid, index) else "right"
        result.add_column(Text(column), justify=justify, no_wrap=True, vertical="top")  # type: ignore[arg-type]
    for row in laid.rows:
        result.add_row(*map(Text, row))
    return result


def _with_heads_wrapped(whole: TextTable) -> TextTable:
    """Break headings that are wider than what is below them."""
    below = [_width(cells) if cells else 0 for cells in zip(*whole.rows, strict=True)] or [0] * len(whole.columns)
    heads = tuple(_broken(head, room) for head, room in zip(whole.columns, below, strict=True))
    return replace(whole, columns=heads)


def _with_prose_wrapped(whole: TextTable, width: int) -> TextTable | None:
    """Give columns of prose what the others leave; None when that is too little."""
    widths = whole.widths
    prose = sorted((index for index in range(len(widths)) if _is_prose(whole, index)), key=lambda index: widths[index])
    left = width - (whole.width - sum(widths[index] for index in prose))
    rooms = {}
    for served, index in enumerate(prose):
        rooms[index] = min(widths[index], left // (len(prose) - served))
        left -= rooms[index]
    if left < 0 or any(room < _NARROWEST for room in rooms.values()):
        return None
    rows = tuple(
        tuple(_broken(cell, rooms.get(index, len(cell))) for index, cell in enumerate(row)) for row in whole.rows
    )
    heads = tuple(_broken(head, rooms[index]) if index in rooms else head for index, head in enumerate(whole.columns))
    found = replace(whole, columns=heads, rows=rows)
    return found if found.width <= width else None


def _is_prose(whole: TextTable, index: int) -> bool:
    return any(len(row[index]) > _PROSE and " " in row[index] for row in whole.rows)


def _spread(whole: TextTable, width: int) -> Iterator[TextTable]:
    """Yield tables that each repeat what the rows are and hold some of the columns."""
    names = list(range(whole.numbers_from))
    chosen = list(names)
    for index in range(whole.numbers_from, len(whole.columns)):
        if len(chosen) > len(names) and _columns(whole, [*chosen, index]).width > width:
            yield _columns(whole, chosen)
            chosen = list(names)
        chosen.append(index)
    yield _columns(whole, chosen)


def _columns(whole: TextTable, chosen: Sequence[int]) -> TextTable:
    rows = tuple(tuple(row[index] for index in chosen) for row in whole.rows)
    return replace(whole, columns=tuple(whole.columns[index] for index in chosen), rows=rows)


def _turned(whole: TextTable, width: int) -> Iterator[TextTable]:
    """Yield tables with the rows as columns, as many in each as fit; a column is headed by what tells rows apart."""
    values = list(zip(*whole.rows, strict=True)) or [()] * len(whole.columns)
    telling = [index for index in range(whole.numbers_from) if len(set(values[index])) == len(whole.rows)]
    head = telling[0] if telling else 0
    others = [index for index in range(len(whole.columns)) if index != head]

    def part(rows: Sequence[int]) -> TextTable:
        cells = [tuple(_broken(values[index][row], _PROSE) for row in rows) for index in others]
        columns = (whole.columns[head], *(values[head][row] for row in rows))
        return TextTable("", columns, tuple((whole.columns[i], *c) for i, c in zip(others, cells, strict=True)))

    chosen: list[int] = []
    for row in range(len(whole.rows)):
        if chosen and part([*chosen, row]).width > width:
            yield part(chosen)
            chosen = []
        chosen.append(row)
    yield part(chosen)


def _broken(text: str, room: int) -> str:
    """Break between words, never between a number and its unit; a longer word stays whole."""
    if len(text) <= room:
        return text
    lines = textwrap.wrap(_UNIT.sub(_GLUE, text), max(room, 1), break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace(_GLUE, " ")


def _width(cells: Sequence[str]) -> int:
    return max(len(line) for cell in cells for line in cell.split("\n"))

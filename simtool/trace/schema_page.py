"""docs/trace-format.md, generated: `python -m simtool.trace.schema_page > docs/trace-format.md`."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import polars as pl

from simtool.trace.manifest import Manifest
from simtool.trace.schema import SCHEMA_VERSION, TABLES, Column, Table

_INTRODUCTION = f"""\
# The trace

<!-- Generated from simtool/trace/schema.py by `make docs`. Do not edit. -->

A trace is a folder: `manifest.json` and one Parquet file a table, `<table>.parquet`. A recording, a replay and an
import all write this one format, schema version {SCHEMA_VERSION}; a reader refuses a later
version. A table without rows has no file. A column that may be null may also be absent, as in files written before
there was such a column: it reads as nulls.

Times are whole nanoseconds on one clock, which the manifest names. Rows are read back sorted by the table's key.

## While it is being written
`parts/000001/<table>.parquet`, `parts/000002/<table>.parquet`, ...: one folder a flush, renamed into place when it is
whole, so that a flush is there for every table or for none. Closing merges the parts into one file a table, then sets
`complete` and `tables` in the manifest, then removes the parts. Where a table has both, its merged file counts and
its parts do not. A writer killed at any moment leaves a trace that opens, with `complete: false` and everything up to
its last flush. One that replaces an older trace grows beside it, and the older one goes when the new one is complete.
Links are not followed.

## How rows are linked
- `events.flow`: a host op and the device work that it launched share it; it grows in launch order. In an import a
  number that occurs once links nothing.
- `rows.(request_id, anchor_position)` finds the drafter's outcome in `outcomes`; `step` joins the tables that
  have it.
- An anchor may have two outcomes, one `visited` and one `filled`.
- A request is admitted between the end of a step and the start of the prefill step after it, in order of arrival. Its
  first token and its last are on the host in `read_tokens`, past the wait, of that prefill and of the step of its last
  row. In a closed loop (`details.closed_loop`) all requests arrive before the first step.
"""


def document() -> str:
    """Return the whole page as Markdown."""
    return "\n".join([_INTRODUCTION, _manifest(), *(_table(table) for table in TABLES.values())])


def _manifest() -> str:
    hints = get_type_hints(Manifest, include_extras=True)
    cells = [(f"`{name}`", _type_name(hint.__origin__), hint.__metadata__[0]) for name, hint in hints.items()]
    return "\n".join(["## manifest.json", "", *_grid("key", "type", "meaning", *cells), ""])


def _type_name(hint: Any) -> str:
    text = hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
    return f"`{text}`".replace("|", "\\|")


def _table(table: Table) -> str:
    lines = [f"## {table.name}", "", f"One row: {table.row}. Key: {_words(table.key)}.", ""]
    cells = [(f"`{c.name}`", _dtype(c), c.unit, c.meaning) for c in table.columns]
    return "\n".join([*lines, *_grid("column", "dtype", "unit", "meaning", *cells), ""])


def _dtype(column: Column) -> str:
    dtype = column.dtype
    text = f"List({dtype.inner})" if isinstance(dtype, pl.List) else str(dtype)
    return f"{text} or null" if column.nullable else text


def _grid(*cells: str | tuple[str, ...]) -> list[str]:
    header = [cell for cell in cells if isinstance(cell, str)]
    rows = [cell for cell in cells if isinstance(cell, tuple)]
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]


def _words(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    print(document(), end="")

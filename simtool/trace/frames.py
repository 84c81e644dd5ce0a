"""Between Python lists and frames of the exact schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import polars as pl

from simtool.errors import TraceError
from simtool.trace.schema import TABLES, Column, Table


def find_table(name: str) -> Table:
    """Return the registry's table; raises TraceError naming the known ones."""
    if name not in TABLES:
        raise TraceError(f"unknown table {name!r}; expected one of {', '.join(TABLES)}")
    return TABLES[name]


def make_frame(table: Table, columns: Mapping[str, Sequence[object]]) -> pl.DataFrame:
    """Return a frame of the table's schema from lists; absent nullable columns are null.

    Raises TraceError naming the column whose values do not fit.
    """
    known = _by_name(table)
    _refuse_unknown(known, columns, table.name)
    frame = pl.DataFrame([_make_series(table, known[name], values) for name, values in columns.items()])
    return conform(table, frame, table.name)


def conform(table: Table, frame: pl.DataFrame, source: str, names: Sequence[str] | None = None) -> pl.DataFrame:
    """Return the frame with the schema's columns in the schema's order, absent nullable columns null.

    names: the columns wanted, in their order; None: all. Raises TraceError on an unknown or absent column, another
    dtype, or a null where none may be.
    """
    columns = _by_name(table)
    _refuse_unknown(columns, frame.columns, source)
    if names is not None:
        columns = {name: columns[name] for name in names}
    found = {series.name: series for series in frame.get_columns()}
    for name, column in columns.items():
        if name not in found:
            if not column.nullable:
                raise TraceError(f"{source}: no column {name!r} ({column.meaning}); it is required")
            continue
        if found[name].dtype != column.dtype:
            raise TraceError(f"{source}: column {name!r} is {found[name].dtype}; expected {column.dtype}")
        if not column.nullable and (nulls := found[name].null_count()):
            raise TraceError(f"{source}: column {name!r} has {nulls} nulls; it must have none")
    return pl.DataFrame([found[name] if name in found else _nulls(columns[name], len(frame)) for name in columns])


def sort_columns(table: Table) -> list[str]:
    """Return what a table is sorted by: its key, then its other plain columns, so that the file decides nothing."""
    rest = [c.name for c in table.columns if c.name not in table.key and not isinstance(c.dtype, pl.List)]
    return [*table.key, *rest]


def sort_frame(table: Table, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame in the table's order."""
    return frame.sort(sort_columns(table))


def empty_frame(table: Table, names: Sequence[str] | None = None) -> pl.DataFrame:
    """Return the table, or those columns of it, without rows."""
    frame = pl.DataFrame(schema=table.polars_schema)
    return frame if names is None else frame.select(names)


def _by_name(table: Table) -> dict[str, Column]:
    return {column.name: column for column in table.columns}


def _nulls(column: Column, rows: int) -> pl.Series:
    return pl.Series(column.name, [None], dtype=column.dtype).new_from_index(0, rows)


def _refuse_unknown(known: Mapping[str, Column], names: Iterable[str], source: str) -> None:
    for name in names:
        if name not in known:
            raise TraceError(f"{source}: unknown column {name!r}; expected {', '.join(known)}")


def _make_series(table: Table, column: Column, values: Sequence[object]) -> pl.Series:
    if isinstance(column.dtype, pl.List):  # an array inside a list would make polars guess another dtype
        values = [value.tolist() if isinstance(value, np.ndarray) else value for value in values]
    try:
        return pl.Series(column.name, values, dtype=column.dtype, strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        reason = str(error).splitlines()[0]
        raise TraceError(f"{table.name}.{column.name}: values do not fit {column.dtype} ({reason})") from error

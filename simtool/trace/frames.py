"""Between Python lists or Parquet files and frames of the exact schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from simtool.errors import TraceError
from simtool.trace.parquet_size import check_size
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


def conform(table: Table, frame: pl.DataFrame, source: str) -> pl.DataFrame:
    """Return the frame with the schema's columns in the schema's order, absent nullable columns null.

    Raises TraceError on an unknown or absent column, another dtype, or a null where none may be.
    """
    columns = _by_name(table)
    _refuse_unknown(columns, frame.columns, source)
    for name, column in columns.items():
        if name not in frame.columns:
            if not column.nullable:
                raise TraceError(f"{source}: no column {name!r} ({column.meaning}); it is required")
            continue
        if frame.schema[name] != column.dtype:
            raise TraceError(f"{source}: column {name!r} is {frame.schema[name]}; expected {column.dtype}")
        if not column.nullable and (nulls := frame[name].null_count()):
            raise TraceError(f"{source}: column {name!r} has {nulls} nulls; it must have none")
    there = set(frame.columns)
    return pl.DataFrame([frame[name] if name in there else _nulls(columns[name], len(frame)) for name in columns])


def sort_frame(table: Table, frame: pl.DataFrame) -> pl.DataFrame:
    """Sort by the table's key; ties by the other plain columns, so that the order never depends on the file."""
    rest = [c.name for c in table.columns if c.name not in table.key and not isinstance(c.dtype, pl.List)]
    return frame.sort([*table.key, *rest])


def empty_frame(table: Table) -> pl.DataFrame:
    """Return the table without rows."""
    return pl.DataFrame(schema=table.polars_schema)


def read_frame(table: Table, path: Path) -> pl.DataFrame:
    """Read one Parquet file of the table; raises TraceError when it is unreadable or of another schema."""
    path = path.absolute()  # polars takes a leading ~ for the home folder
    check_size(path)
    try:
        frame = pl.read_parquet(path, glob=False)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:  # it panics at some bytes
        reason = str(error).splitlines()[0]
        raise TraceError(f"{path}: cannot be read as Parquet ({reason}); the trace is damaged") from error
    return conform(table, frame, str(path))


def _by_name(table: Table) -> dict[str, Column]:
    return {column.name: column for column in table.columns}


def _nulls(column: Column, rows: int) -> pl.Series:
    return pl.Series(column.name, dtype=column.dtype).extend_constant(None, rows)


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

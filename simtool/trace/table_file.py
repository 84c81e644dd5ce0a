"""One table of a trace on disk: whole, some columns of it, or a stretch of its rows after another.

Rows come in the order of the table's key. Files that hold them so, as every writer here leaves them, are read a group
of rows at a time; any other is read whole and sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

import polars as pl

from simtool.errors import TraceError
from simtool.trace.folder import file_hash, table_files
from simtool.trace.frames import conform, empty_frame, sort_columns, sort_frame
from simtool.trace.manifest import TableFacts
from simtool.trace.parquet_size import RowGroup, check_values, read_row_groups
from simtool.trace.schema import Table

#: Rows of a stretch, about: some ten megabytes.
STRETCH_ROWS = 1 << 16


class TableSource(Protocol):
    """Where a trace has a table from: rows in the order of its key."""

    @property
    def height(self) -> int:
        """How many rows there are."""

    def whole(self) -> pl.DataFrame:
        """Return the whole table."""

    def columns(self, names: Sequence[str]) -> pl.DataFrame:
        """Return those columns of all rows."""

    def stretches(self, names: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """Yield those columns, or all, of some rows after another; rows of one first key are never parted."""

    def of_steps(self, steps: Sequence[int]) -> pl.DataFrame:
        """Return the rows of some steps."""

    def only_file(self) -> Path | None:
        """Return the file that holds the whole table in its order; None where several do, or none."""


class TableFile:
    """Parquet files of one table. facts: what the manifest tells of the file; hash_of: tells its sha256.

    Raises TraceError where it is another, or no plain file.
    """

    def __init__(
        self, table: Table, folder: Path, facts: TableFacts | None, hash_of: Callable[[Path], str] = file_hash
    ) -> None:
        self._table = table
        self.files = [file.absolute() for file in table_files(folder, table.name)]  # polars takes a leading ~ for home
        if self.files and facts is not None and hash_of(self.files[0]) != facts.sha256:
            raise TraceError(  # its reader may do anything at a changed byte
                f"{self.files[0]}: is not the file that the manifest tells of ({facts.rows:,} rows); give the whole "
                "trace"
            )
        self._groups = {file: read_row_groups(file) for file in self.files}

    @property
    def height(self) -> int:
        """How many rows there are."""
        return sum(group.rows for groups in self._groups.values() for group in groups)

    def whole(self) -> pl.DataFrame:
        """Return the whole table."""
        for file, groups in self._groups.items():
            check_values(file, sum(group.values for group in groups))
        frame = self._join(self._read(file, None) for file in self.files)
        return frame if _ascent(frame, sort_columns(self._table)) != _FALLS else sort_frame(self._table, frame)

    def columns(self, names: Sequence[str]) -> pl.DataFrame:
        """Return those columns of all rows."""
        if not self.in_order:
            return self.whole().select(names)
        for file, groups in self._groups.items():
            check_values(file, len(names) * sum(group.rows for group in groups))
        return self._join((self._read(file, names) for file in self.files), names)

    def of_steps(self, steps: Sequence[int]) -> pl.DataFrame:
        """Return the rows of some steps; groups of rows that hold none of them are not read."""
        if not self.in_order or not steps:
            return self.whole().filter(pl.col("step").is_in(steps))
        wanted = pl.col("step").is_between(min(steps), max(steps)) & pl.col("step").is_in(steps)
        return self._join(self._read(file, None, wanted=wanted) for file in self.files)

    def only_file(self) -> Path | None:
        """Return the file that holds the whole table in its order; None where several do, or none."""
        return self.files[0] if len(self.files) == 1 and self.in_order else None

    def stretches(self, names: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """Yield those columns, or all, of some rows after another; rows of one first key are never parted."""
        if not self.in_order:
            return stretches_of(self._table, self.whole(), names)
        key = self._table.key[0]
        wanted = None if names is None else list(dict.fromkeys((*names, key)))
        return _never_parting(self._parts(wanted), key, names)

    @cached_property
    def in_order(self) -> bool:
        """Whether the files hold the rows in the table's order; where keys are alike the other columns are asked."""
        by_key = self._ascends(self._table.key)
        return by_key == _RISES or (by_key == _TIES and self._ascends(sort_columns(self._table)) != _FALLS)

    def _ascends(self, names: Sequence[str]) -> int:
        """How rows follow each other in those columns, at the worst place."""
        worst, last = _RISES, None
        for rows in self._parts(names):
            worst = min(worst, _ascent(rows if last is None else pl.concat([last, rows]), names))
            if worst == _FALLS:
                break
            last = rows.tail(1)
        return worst

    def _parts(self, names: Sequence[str] | None) -> Iterator[pl.DataFrame]:
        """Yield the rows as the files hold them, a few groups at a time."""
        for file, groups in self._groups.items():
            at = 0
            for rows in _gathered(groups):
                yield self._read(file, names, at, rows)
                at += rows

    def _read(
        self,
        file: Path,
        names: Sequence[str] | None,
        at: int = 0,
        rows: int | None = None,
        wanted: pl.Expr | None = None,
    ) -> pl.DataFrame:
        try:
            scan = pl.scan_parquet(file, glob=False)
            if names is not None:
                there = scan.collect_schema().names()
                scan = scan.select([name for name in names if name in there])
            scan = scan.slice(at, rows) if wanted is None else scan.filter(wanted)
            frame = scan.collect()
        except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:  # it panics at some bytes
            reason = str(error).splitlines()[0]
            raise TraceError(f"{file}: cannot be read as Parquet ({reason}); the trace is damaged") from error
        return conform(self._table, frame, str(file), names)

    def _join(self, frames: Iterable[pl.DataFrame], names: Sequence[str] | None = None) -> pl.DataFrame:
        return pl.concat([*frames] or [empty_frame(self._table, names)])


def stretches_of(table: Table, frame: pl.DataFrame, names: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
    """Yield those columns, or all, of a table in its order as `TableFile.stretches` does."""
    return _never_parting(frame.iter_slices(STRETCH_ROWS), table.key[0], names)


def _never_parting(parts: Iterable[pl.DataFrame], key: str, names: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    """Cut parts anew, so that rows of one key stay together; leave out what is not named."""
    held: pl.DataFrame | None = None
    for part in parts:
        rows = part if held is None else pl.concat([held, part])
        last = int((rows[key] == rows[key][-1]).sum()) if len(rows) else 0
        done, held = rows.head(len(rows) - last), rows.tail(last)
        if len(done):
            yield done if names is None else done.select(names)
    if held is not None and len(held):
        yield held if names is None else held.select(names)


def _gathered(groups: Sequence[RowGroup]) -> Iterator[int]:
    """Yield how many rows to read at a time: whole groups, small ones together."""
    rows = 0
    for group in groups:
        if rows and rows + group.rows > STRETCH_ROWS:
            yield rows
            rows = 0
        rows += group.rows
    if rows:
        yield rows


def rises(frame: pl.DataFrame, names: Sequence[str]) -> bool:
    """Return whether each row comes after the one before it in those columns, and none is like it."""
    return _ascent(frame, names) == _RISES


_FALLS, _TIES, _RISES = -1, 0, 1


def _ascent(frame: pl.DataFrame, names: Sequence[str]) -> int:
    """How each row follows the one before it, at the worst place: behind it, alike, or before it."""
    alike = pl.repeat(True, max(len(frame) - 1, 0), dtype=pl.Boolean, eager=True)
    for name in names:
        before, after = frame[name].head(len(alike)), frame[name].tail(len(alike))
        falls = (before > after).fill_null(after.is_null() & before.is_not_null())
        if (alike & falls).any():
            return _FALLS
        alike &= before.eq_missing(after)
        if not alike.any():
            return _RISES
    return _TIES

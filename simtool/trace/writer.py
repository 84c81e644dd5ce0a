"""Writes a trace that may be killed at any moment.

While it is being written a trace holds its manifest (complete: false) and `parts/000001/`, `parts/000002/`, ...:
one folder a flush, moved into place whole, so that a flush is there for every table or for none. `close` merges
the parts into one `<table>.parquet` each and marks the manifest complete. Where both exist the merged table wins.
Over an older trace all of this happens beside it, and the older one goes when the new one is complete. What `close`
leaves is synced; a flush is not, for it would hold up the run that is being timed: it outlives the process only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from simtool.errors import Terminated, TraceError
from simtool.trace.folder import TraceFolder, drop_parts, write_part, write_table
from simtool.trace.frames import find_table, make_frame
from simtool.trace.manifest import Manifest, write_manifest
from simtool.trace.schema import TABLES
from simtool.trace.table_file import TableFile


class TraceWriter:
    """Writes one trace. `append` only extends lists; `flush` and `close` do the disk work.

    As a context manager it closes on a clean exit, and on an exception keeps what was flushed, marked incomplete; or,
    where an older trace was to be replaced, keeps that one.
    Raises TraceError when the folder holds anything, unless `force` is given and it is a trace.
    """

    def __init__(self, path: Path, manifest: Manifest, *, force: bool = False) -> None:
        self.path = Path(path)
        self.manifest = dataclasses.replace(manifest, complete=False, tables=None)
        self._buffers = {name: _Buffer() for name in TABLES}
        self._flushes = 0
        self._open = True
        self._folder = TraceFolder(self.path, self.manifest, force=force, grows=True)

    def append(self, table: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Buffer rows given as columns of equal length; a nullable column may be left out.

        Raises TraceError on an unknown table or unequal lengths; dtypes are checked by `flush`.
        """
        buffer = self._buffers.get(table) if self._open else None
        if buffer is None:
            find_table(table)
            raise TraceError(f"{self.path}: appended to after it was closed; open another writer")
        buffer.extend(table, columns)

    def flush(self) -> None:
        """Move the buffered rows to disk, all tables at once or none. Raises TraceError when values do not fit."""
        pending = {name: buffer.columns for name, buffer in self._buffers.items() if buffer.rows}
        if not pending:
            return
        frames = {name: make_frame(TABLES[name], columns) for name, columns in pending.items()}
        for name in pending:
            self._buffers[name] = _Buffer()
        self._flushes += 1
        write_part(self._folder.path, self._flushes, frames)

    def close(self, **manifest_updates: Any) -> None:
        """Flush, merge the parts into one file a table, and mark the manifest complete, with those fields replaced."""
        if not self._open:
            return
        self.flush()
        path, tables = self._folder.path, {}
        for table in TABLES.values():
            stored = TableFile(table, path, None)
            if stored.files:
                tables[table.name] = write_table(path, table.name, stored.whole())
        self.manifest = dataclasses.replace(self.manifest, **manifest_updates, complete=True, tables=tables)
        write_manifest(path, self.manifest)
        drop_parts(path)
        self._folder.finish()
        self._open = False

    def abandon(self, warning: str | None = None) -> None:
        """Stop writing: keep what was flushed, leave the manifest incomplete, with the warning added to it."""
        if not self._open:
            return
        self._open = False
        if warning is not None:
            warnings = [*self.manifest.warnings, warning]
            self.manifest = dataclasses.replace(self.manifest, warnings=warnings, complete=False, tables=None)
            with suppress(OSError):  # on a disk that is full; what is there is readable as it is
                write_manifest(self._folder.path, self.manifest)
        self._folder.discard()

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            try:
                self.close()
            except BaseException as failure:
                self.abandon(_why(failure))
                raise
        else:
            self.abandon(_why(error))


def _why(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "stopped by Ctrl-C"
    name = "" if isinstance(error, Terminated) else f"{type(error).__name__}: "
    return f"stopped by {name}{error}"


@dataclass
class _Buffer:
    """Columns under way. Nullable columns that one append leaves out are filled with nulls."""

    rows: int = 0
    columns: dict[str, list[Any]] = field(default_factory=dict)

    def extend(self, table: str, columns: Mapping[str, Sequence[Any]]) -> None:
        lengths = {len(values) for values in columns.values()}
        if len(lengths) != 1:
            sizes = ", ".join(f"{name} {len(values)}" for name, values in columns.items())
            raise TraceError(f"{table}: columns of unequal length ({sizes or 'none given'}); give one value a row")
        count = lengths.pop()
        if columns.keys() != self.columns.keys():
            for name in columns.keys() - self.columns.keys():
                self.columns[name] = [None] * self.rows
            for name in self.columns.keys() - columns.keys():
                self.columns[name].extend([None] * count)
        for name, values in columns.items():
            self.columns[name].extend(values)
        self.rows += count

"""A trace: a manifest and tables in a folder, opened, or written whole. `writer.py` writes one bit by bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar, cast

import polars as pl

from simtool.errors import TraceError
from simtool.step.placement import Placement, placement_from_dict
from simtool.trace.folder import TraceFolder, file_hash, replace_files, write_table
from simtool.trace.frames import conform, find_table, sort_frame
from simtool.trace.manifest import Manifest, read_manifest, write_manifest
from simtool.trace.schema import TABLES
from simtool.trace.table_file import TableFile, TableSource, stretches_of

_T = TypeVar("_T")


@dataclass(frozen=True)
class Trace:
    """An opened trace: where it lies, what it is, and its tables, each read once where it is asked for whole.

    Rows always come in the order of their table's key. Every reader raises TraceError on an unknown name, an unreadable
    file or a wrong column.
    """

    path: Path
    manifest: Manifest
    _frames: dict[str, pl.DataFrame] = field(default_factory=dict, repr=False, compare=False)
    _sources: dict[str, TableSource] = field(default_factory=dict, repr=False, compare=False)
    _made: dict[str, object] = field(default_factory=dict, repr=False, compare=False)

    def table(self, name: str) -> pl.DataFrame:
        """Return a table in the exact schema; without rows when the trace holds none."""
        if name not in self._frames:
            self._frames[name] = self._source(name).whole()
        return self._frames[name]

    def columns(self, table: str, *names: str) -> pl.DataFrame:
        """Return some columns of a table, all rows; they are not kept."""
        return self._frames[table].select(names) if table in self._frames else self._source(table).columns(names)

    def stretches(self, table: str, *names: str) -> Iterator[pl.DataFrame]:
        """Yield some thousand rows of a table after another: those columns, or all where none is named.

        Rows of one step, or of one request in the tables that it leads, are never parted.
        """
        wanted = names or None
        if table in self._frames:
            return stretches_of(find_table(table), self._frames[table], wanted)
        return self._source(table).stretches(wanted)

    def of_steps(self, table: str, steps: Sequence[int]) -> pl.DataFrame:
        """Return the rows of some steps, of a table that has steps."""
        if table in self._frames:
            return self._frames[table].filter(pl.col("step").is_in(steps))
        return self._source(table).of_steps(steps)

    def with_table(self, name: str, frame: pl.DataFrame) -> Self:
        """Return the trace with another table in the place of its own; nothing is written."""
        return dataclasses.replace(self, _frames={**self._frames, name: frame}, _made={})

    def once(self, what: str, make: Callable[[Trace], _T]) -> _T:
        """Return what `make` makes of the trace; made once for each name, and kept while the trace is."""
        if what not in self._made:
            self._made[what] = make(self)
        return cast("_T", self._made[what])

    def height(self, table: str) -> int:
        """Return how many rows a table has."""
        return self._frames[table].height if table in self._frames else self._source(table).height

    def file_of(self, table: str) -> Path | None:
        """Return the one file that holds a table as a trace keeps it; None where there is none such."""
        return None if table in self._frames else self._source(table).only_file()

    def hash_of(self, file: Path) -> str:
        """Return the sha256 of a table's merged file; read once for each."""
        return self.once(f"sha256 of {file.name}", lambda _: file_hash(file))

    @property
    def placement(self) -> Placement:
        """The placement that ordered the steps; raises TraceError for an import, which has none."""
        if self.manifest.placement is None:
            raise TraceError(f"{self.path}: {self.manifest.origin} by {self.manifest.engine}, so it has no placement")
        return placement_from_dict(self.manifest.placement, source=str(self.path))

    def _source(self, name: str) -> TableSource:
        if name not in self._sources:
            facts = (self.manifest.tables or {}).get(name)
            self._sources[name] = TableFile(find_table(name), self.path, facts, self.hash_of)
        return self._sources[name]


def open_trace(path: Path | str) -> Trace:
    """Open a trace; tables are read when asked for. Raises TraceError when it is missing, foreign or too new."""
    folder = Path(path)
    return Trace(folder, read_manifest(folder))


def write_trace(path: Path, manifest: Manifest, frames: Mapping[str, pl.DataFrame], *, force: bool = False) -> Trace:
    """Write a whole trace at once, for replays and imports, and return it opened; the manifest becomes complete."""
    ready = {name: conform(find_table(name), frame, name) for name, frame in frames.items()}
    incomplete = dataclasses.replace(manifest, complete=False)
    folder = TraceFolder(Path(path), incomplete, force=force, grows=False)
    try:
        tables = {
            name: write_table(folder.path, name, sort_frame(TABLES[name], frame))
            for name, frame in ready.items()
            if not frame.is_empty()
        }
        write_manifest(folder.path, dataclasses.replace(manifest, complete=True, tables=tables))
        folder.finish()
    finally:
        folder.discard()
    return open_trace(path)


def replace_table(trace: Trace, name: str, frame: pl.DataFrame) -> Trace:
    """Replace one table of a complete trace, in one exchange of its folder, and return the trace opened anew.

    Raises TraceError when the trace is incomplete (its parts would still be merged over the new table).
    """
    if not trace.manifest.complete:
        raise TraceError(f"{trace.path}: is incomplete, so its {name} cannot be replaced; record it again")
    table = find_table(name)
    replace_files(trace.path, trace.manifest, name, sort_frame(table, conform(table, frame, name)))
    return open_trace(trace.path)

"""A trace: a manifest and tables in a folder, opened, or written whole. `writer.py` writes one bit by bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from simtool.errors import TraceError
from simtool.step.placement import Placement, placement_from_dict
from simtool.trace.folder import TraceFolder, file_hash, replace_files, table_files, write_table
from simtool.trace.frames import conform, empty_frame, find_table, read_frame, sort_frame
from simtool.trace.manifest import Manifest, read_manifest, write_manifest
from simtool.trace.schema import TABLES


@dataclass(frozen=True)
class Trace:
    """An opened trace: where it lies, what it is, and its tables, each read once."""

    path: Path
    manifest: Manifest
    _frames: dict[str, pl.DataFrame] = field(default_factory=dict, repr=False, compare=False)

    def table(self, name: str) -> pl.DataFrame:
        """Return a table in the exact schema, sorted by its key; without rows when the trace holds none.

        Raises TraceError on an unknown name, an unreadable file or a wrong column.
        """
        if name not in self._frames:
            self._frames[name] = self._read(name)
        return self._frames[name]

    @property
    def placement(self) -> Placement:
        """The placement that ordered the steps; raises TraceError for an import, which has none."""
        if self.manifest.placement is None:
            raise TraceError(f"{self.path}: {self.manifest.origin} by {self.manifest.engine}, so it has no placement")
        return placement_from_dict(self.manifest.placement, source=str(self.path))

    def _read(self, name: str) -> pl.DataFrame:
        table = find_table(name)
        files = table_files(self.path, name)
        facts = (self.manifest.tables or {}).get(name)
        if not files:
            return empty_frame(table)
        if facts is not None and file_hash(files[0]) != facts.sha256:  # its reader may do anything at a changed byte
            raise TraceError(
                f"{files[0]}: is not the file that the manifest tells of ({facts.rows:,} rows); give the whole trace"
            )
        return sort_frame(table, pl.concat([read_frame(table, file) for file in files]))


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

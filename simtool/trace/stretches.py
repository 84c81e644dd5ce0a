"""Writes a trace whose rows come in order, stretch by stretch, so that it may be larger than memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import polars as pl

from simtool.trace.folder import TraceFolder, adopt_file, drop_parts, join_parts, table_files, write_part, write_table
from simtool.trace.frames import conform, find_table, sort_frame
from simtool.trace.manifest import Manifest, TableFacts, write_manifest
from simtool.trace.schema import TABLES


class StretchWriter:
    """Use as a context manager; what was not finished leaves nothing behind, and an older trace stays.

    manifest: what stands there meanwhile. Raises TraceError when the folder holds anything, unless `force` is given and
    it is a trace.
    """

    def __init__(self, path: Path, manifest: Manifest, *, force: bool = False) -> None:
        incomplete = dataclasses.replace(manifest, complete=False)
        self._folder = TraceFolder(path, incomplete, force=force, grows=False)
        self._stretches = 0
        self._whole: dict[str, TableFacts] = {}

    def add(self, frames: Mapping[str, pl.DataFrame]) -> None:
        """Write the next rows of some tables; each frame is sorted by its table's key, and behind those before it."""
        self._stretches += 1
        write_part(self._folder.path, self._stretches, {name: frame for name, frame in frames.items() if len(frame)})

    def adopt(self, table: str, file: Path) -> None:
        """Take a table as another trace keeps it, byte for byte."""
        self._whole[table] = adopt_file(self._folder.path, table, file)

    def add_all(self, table: str, frame: pl.DataFrame) -> None:
        """Write a table whose rows come at once, in any order."""
        if not frame.is_empty():
            rows = sort_frame(find_table(table), conform(find_table(table), frame, table))
            self._whole[table] = write_table(self._folder.path, table, rows)

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest: the trace takes its place, whole."""
        path = self._folder.path
        parts = (name for name in TABLES if name not in self._whole and table_files(path, name))
        tables = {**self._whole, **{name: join_parts(path, name) for name in parts}}
        drop_parts(path)
        write_manifest(path, dataclasses.replace(manifest, complete=True, tables=tables))
        self._folder.finish()

    def __enter__(self) -> StretchWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.discard()

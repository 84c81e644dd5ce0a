"""The folder of a trace: how it appears, what may be overwritten, where its files lie."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from simtool.errors import TraceError
from simtool.trace.manifest import MANIFEST_NAME, Manifest, read_manifest, write_manifest
from simtool.trace.schema import TABLES

_PARTS = "parts"


def make_room(path: Path, manifest: Manifest, force: bool) -> None:
    """Create the folder with an incomplete manifest in it; empty an older trace when told to.

    A new trace appears with its manifest, in one rename. Files in an older one that are not a trace's stay.
    """
    if not path.exists():
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        temporary.mkdir(parents=True)
        write_manifest(temporary, manifest)
        os.replace(temporary, path)
        return
    if not path.is_dir():
        raise TraceError(f"{path}: is a file; give the name of a folder to write the trace to")
    if (path / MANIFEST_NAME).exists():
        old = read_manifest(path)  # a manifest of another program is refused here, whatever `force` says
        if not force:
            raise TraceError(f"{path}: holds a trace already; choose another name, or overwrite it with --force")
        write_manifest(path, dataclasses.replace(old, complete=False))
        for name in TABLES:
            (path / f"{name}.parquet").unlink(missing_ok=True)
        drop_parts(path)
    elif any(path.iterdir()):
        raise TraceError(f"{path}: is a folder of other files, not a trace; choose another name")
    write_manifest(path, manifest)


def write_table(path: Path, table: str, frame: pl.DataFrame) -> None:
    """Write a table's merged file, which appears whole."""
    final = path / f"{table}.parquet"
    temporary = final.with_name(f".{final.name}.tmp")
    frame.write_parquet(temporary, compression="zstd")
    os.replace(temporary, final)


def write_part(path: Path, number: int, frames: Mapping[str, pl.DataFrame]) -> None:
    """Write one flush: a folder of one file a table, moved into place whole."""
    temporary, final = path / _PARTS / f".{number:06d}.tmp", path / _PARTS / f"{number:06d}"
    temporary.mkdir(parents=True)
    for name, frame in frames.items():
        frame.write_parquet(temporary / f"{name}.parquet", compression="lz4")
    os.replace(temporary, final)


def drop_parts(path: Path) -> None:
    """Remove the parts, once their tables are merged."""
    shutil.rmtree(path / _PARTS, ignore_errors=True)


def table_files(path: Path, table: str) -> list[Path]:
    """Return the files that hold a table: the merged one, or else its parts in the order they were written."""
    merged = path / f"{table}.parquet"
    return [merged] if merged.exists() else sorted(path.glob(f"{_PARTS}/[0-9]*/{table}.parquet"))

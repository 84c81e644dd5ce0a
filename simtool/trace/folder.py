"""The folder of a trace: how it appears, what may be overwritten, where its files lie.

A trace without an older one in its place appears at once, incomplete, and grows there, so that a killed writer leaves
all up to its last flush. One that replaces an older trace grows beside it and takes its place when it is whole.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import polars as pl

from simtool.errors import TraceError
from simtool.files.reading import kind_of
from simtool.files.writing import Claim, NewFolder, is_temporary, whole_file, write_bytes
from simtool.trace.manifest import MANIFEST_NAME, Manifest, TableFacts, read_manifest, write_manifest
from simtool.trace.schema import TABLES

_PARTS = "parts"
#: Rows that are stored, and read, together: few enough for a reader to hold, many enough to fold well.
GROUP_ROWS = 1 << 16


class TraceFolder:
    """A trace's folder while it is written. path: where to write now.

    grows: whether it appears at once, incomplete, where no older one stands. Raises TraceError where something stands
    that may not be overwritten, OutputError where another process writes.
    """

    def __init__(self, place: Path, manifest: Manifest, *, force: bool, grows: bool) -> None:
        self._old = place if _is_standing(place, force) else None
        self._grows = grows and self._old is None
        self._new = NewFolder(place)
        self._claim: Claim | None = None
        try:
            write_manifest(self._new.path, manifest)
            if self._grows:
                self._claim = Claim(place)
                self._new.appear()
        except BaseException:
            self.discard()
            raise
        self.path = place if self._grows else self._new.path

    def finish(self) -> None:
        """The trace is whole: an older one goes, but for files in it that are not a trace's."""
        if self._old is not None:
            for entry in self._old.iterdir():
                if entry.name not in _ours() and not is_temporary(entry.name):
                    _take_along(entry, self.path / entry.name)
        if not self._grows:
            self._new.appear()
        self.discard()

    def discard(self) -> None:
        """Drop what has not taken its place: an older trace stays, a new one stays as far as it was written."""
        self._new.discard()
        if self._claim is not None:
            self._claim.release()


def write_table(path: Path, table: str, frame: pl.DataFrame) -> TableFacts:
    """Write a table's merged file, which appears whole, and return what the manifest holds of it."""
    frame.write_parquet(encoded := BytesIO(), compression="zstd", row_group_size=GROUP_ROWS)
    write_bytes(path / f"{table}.parquet", encoded.getbuffer())
    return TableFacts(frame.height, hashlib.sha256(encoded.getbuffer()).hexdigest())


def adopt_file(path: Path, table: str, file: Path) -> TableFacts:
    """Copy another trace's file of a table, and return what the manifest holds of it."""
    copy = path / f"{table}.parquet"
    with file.open("rb") as theirs, whole_file(copy) as ours:
        shutil.copyfileobj(theirs, ours)
    rows = pl.scan_parquet(copy, glob=False).select(pl.len()).collect().item()
    return TableFacts(rows, file_hash(copy))


def file_hash(file: Path) -> str:
    """Return the sha256 of a table's merged file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def replace_files(path: Path, manifest: Manifest, table: str, frame: pl.DataFrame) -> None:
    """Replace one table of a trace and what its manifest says of it, both in one exchange of the folder."""
    new = NewFolder(path)
    try:
        for entry in path.iterdir():
            if entry.name not in (f"{table}.parquet", MANIFEST_NAME) and not is_temporary(entry.name):
                _take_along(entry, new.path / entry.name)
        write_manifest(new.path, manifest.with_table(table, write_table(new.path, table, frame)))
        new.appear()
    finally:
        new.discard()


def write_part(path: Path, number: int, frames: Mapping[str, pl.DataFrame]) -> None:
    """Write one flush: a folder of one file a table, moved into place whole. It is not synced: a run is being timed."""
    temporary = path / _PARTS / f".{number:06d}.{secrets.token_hex(8)}.tmp"
    temporary.mkdir(parents=True)
    for name, frame in frames.items():
        frame.write_parquet(encoded := BytesIO(), compression="lz4")
        (temporary / f"{name}.parquet").write_bytes(encoded.getbuffer())
    os.replace(temporary, path / _PARTS / f"{number:06d}")


def join_parts(path: Path, table: str) -> TableFacts:
    """Make one file of a table's parts, whose rows are in order already, a few at a time; it appears whole."""
    temporary = path / _PARTS / f".{table}.{secrets.token_hex(8)}.tmp"
    parts = pl.scan_parquet(table_files(path, table))
    parts.sink_parquet(temporary, compression="zstd", maintain_order=True, row_group_size=GROUP_ROWS)
    facts = TableFacts(pl.scan_parquet(temporary).select(pl.len()).collect().item(), file_hash(temporary))
    with temporary.open("rb") as written:
        os.fsync(written.fileno())
    os.replace(temporary, path / f"{table}.parquet")
    return facts


def drop_parts(path: Path) -> None:
    """Remove the parts, once their tables are merged."""
    shutil.rmtree(path / _PARTS, ignore_errors=True)


def table_files(path: Path, table: str) -> list[Path]:
    """Return the files that hold a table: the merged one, or else its parts in the order they were written.

    Raises TraceError for a link, a pipe or anything else that is not a plain file of the trace's own.
    """
    merged = path / f"{table}.parquet"
    if os.path.lexists(merged):
        return [_plain(merged)]
    if (path / _PARTS).is_symlink():
        raise TraceError(f"{path / _PARTS}: is a link, and a trace holds files of its own; copy what it names")
    parts = sorted(folder for folder in path.glob(f"{_PARTS}/[0-9]*") if not folder.is_symlink())
    return [_plain(folder / merged.name) for folder in parts if os.path.lexists(folder / merged.name)]


def _plain(file: Path) -> Path:
    mode = file.lstat().st_mode
    if not stat.S_ISREG(mode):
        raise TraceError(f"{file}: is {kind_of(mode)}, and a trace holds plain files of its own; put the file there")
    return file


def _is_standing(place: Path, force: bool) -> bool:
    """Whether an older trace stands there that may be overwritten."""
    if not place.exists():
        return False
    if not place.is_dir():
        raise TraceError(f"{place}: is a file; give the name of a folder to write the trace to")
    if (place / MANIFEST_NAME).exists():
        read_manifest(place)  # a manifest of another program is refused here, whatever `force` says
        if not force:
            raise TraceError(f"{place}: holds a trace already; choose another name, or overwrite it with --force")
        return True
    if any(place.iterdir()):
        raise TraceError(f"{place}: is a folder of other files, not a trace; choose another name")
    return False


def is_file_of_trace(path: Path) -> bool:
    """Whether a file of that name belongs to the trace whose folder it lies in, whether it is there or not."""
    return path.name in _ours() and (path.parent / MANIFEST_NAME).is_file()


def _ours() -> set[str]:
    return {MANIFEST_NAME, _PARTS, *(f"{name}.parquet" for name in TABLES)}


def _take_along(entry: Path, to: Path) -> None:
    """The same file or folder in another place on the same disk, as a second name of it where the disk has such."""
    if entry.is_symlink() or not entry.is_dir():
        try:
            os.link(entry, to, follow_symlinks=False)
        except OSError:
            shutil.copy2(entry, to, follow_symlinks=False)
    else:
        shutil.copytree(entry, to, symlinks=True, copy_function=os.link)

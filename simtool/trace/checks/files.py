"""Whether the files of a trace are those that its manifest tells of: a lost, cut or changed table is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from simtool.trace.checks.finding import Finding, Severity
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace


def check_files(trace: Trace) -> Iterator[Finding]:
    """Yield what is not as it was written. A trace that is being written says nothing of its files yet."""
    facts = trace.manifest.tables
    if not trace.manifest.complete:
        return
    if facts is None:
        message = "keeps no row counts and hashes of its tables, so a lost or a changed one would not be noticed"
        yield Finding(Severity.NOTE, "manifest", message)
        return
    for name in TABLES:
        (found, *_) = [*_merged(trace, name), None]
        told = facts.get(name)
        if told is None and found is not None:
            yield Finding(Severity.ERROR, name, "there is a file of it, and the manifest tells of none", 1, found.name)
        elif told is not None and found is None:
            message = f"its file is lost: the manifest tells of {told.rows:,} rows"
            yield Finding(Severity.ERROR, name, message, told.rows, f"{name}.parquet")
        elif told is not None and found is not None and trace.hash_of(found) != told.sha256:
            message = f"is not the file that the manifest tells of ({told.rows:,} rows)"
            yield Finding(Severity.ERROR, name, message, 1, found.name)


def _merged(trace: Trace, name: str) -> list[Path]:
    """The table's file where it is a plain one; anything else in its place is told of when it is to be read."""
    file = trace.path / f"{name}.parquet"
    return [file] if file.is_file() and not file.is_symlink() else []

"""Whether the files of a trace are those that its manifest tells of: a lost, cut or changed table is noticed."""

from __future__ import annotations

from collections.abc import Iterator

from simtool.trace.checks.finding import Finding, Severity
from simtool.trace.folder import file_hash
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
        file = trace.path / f"{name}.parquet"
        told, found = facts.get(name), file if file.exists() else None
        if told is None and found is not None:
            yield Finding(Severity.ERROR, name, "there is a file of it, and the manifest tells of none", 1, found.name)
        elif told is not None and found is None:
            message = f"its file is lost: the manifest tells of {told.rows:,} rows"
            yield Finding(Severity.ERROR, name, message, told.rows, file.name)
        elif told is not None and found is not None and file_hash(found) != told.sha256:
            rows = trace.table(name).height
            message = f"is not the file that the manifest tells of ({told.rows:,} rows, and here {rows:,})"
            yield Finding(Severity.ERROR, name, message, abs(told.rows - rows) or 1, found.name)

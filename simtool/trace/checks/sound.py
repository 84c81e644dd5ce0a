"""Opening a trace to make figures from: one that contradicts itself is refused."""

from __future__ import annotations

from pathlib import Path

from simtool.errors import TraceError
from simtool.trace.checks.check import Severity, check_stored
from simtool.trace.trace import Trace, open_trace


def open_sound(path: Path) -> Trace:
    """Open a trace and check every invariant, which takes some ms.

    Raises TraceError when it cannot be opened or breaks an invariant. Warnings and notes, as of a trace whose writer
    was stopped, do not matter here: `simtool inspect` lists them.
    """
    trace = open_trace(path)
    errors = [finding for finding in check_stored(trace) if finding.severity is Severity.ERROR]
    if errors:
        first = str(errors[0]).removeprefix(f"{Severity.ERROR}: ")
        count = f"{len(errors)} errors" if len(errors) > 1 else "1 error"
        raise TraceError(
            f"{path}: contradicts itself, so no figure from it would hold: {first}; `simtool inspect {path}` shows "
            f"all ({count}); give a sound copy, or make it again"
        )
    return trace

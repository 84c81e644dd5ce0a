"""kernel_details.csv of torch_npu: one row a kernel, with its stream and step, and nothing of the host."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from simtool.errors import TraceError
from simtool.trace.importers.chrome import to_span_ns
from simtool.trace.importers.ledger import Ledger
from simtool.trace.importers.timeline import ProfiledWork, StepMark, Timeline, WorkKind

_NAME, _START, _DURATION, _STREAM, _STEP = "Name", "Start Time(us)", "Duration(us)", "Stream ID", "Step Id"
_REQUIRED = (_NAME, _START, _DURATION, _STREAM)


@dataclass
class KernelDetails:
    """The kernels of the table; a step's mark spans its kernels."""

    timeline: Timeline = field(default_factory=Timeline)
    steps: dict[int, tuple[int, int]] = field(default_factory=dict)


def read_kernel_details(path: Path, ledger: Ledger) -> KernelDetails:
    """Read the table; rows that are no kernel of a stream are counted in the ledger.

    Raises TraceError when it cannot be read or lacks a column.
    """
    found = KernelDetails()
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            rows = csv.DictReader(file)
            _check_columns(path, rows.fieldnames or ())
            for row in rows:
                _take(row, rows.line_num, found, ledger)
    except (OSError, csv.Error) as error:
        raise TraceError(f"{path}: cannot be read as CSV ({error}); give the profiler's own file") from error
    found.timeline.marks = [StepMark(step, span) for step, span in sorted(found.steps.items())]
    return found


def _check_columns(path: Path, names: object) -> None:
    columns = list(names) if isinstance(names, list | tuple) else []
    if absent := [name for name in _REQUIRED if name not in columns]:
        shown = ", ".join(columns[:8]) or "none"
        raise TraceError(f"{path}: no column {absent[0]!r}; it has {shown}; expected at least {', '.join(_REQUIRED)}")


def _take(row: Mapping[str, str | None], line: int, found: KernelDetails, ledger: Ledger) -> None:
    name, stream = row[_NAME] or "", (row[_STREAM] or "").strip()
    if stream == "N/A":
        ledger.drop("communication operators, which span several streams")
        return
    span = to_span_ns(row[_START], row[_DURATION])
    if span is None or not stream:
        ledger.reject("row of kernel_details.csv is no kernel", f"line {line}: {name} {row[_START]} {row[_DURATION]}")
        return
    found.timeline.works.append(ProfiledWork(name, f"stream {stream}", WorkKind.KERNEL, span, None))
    step = (row.get(_STEP) or "").strip()
    if step.isdecimal() and len(step) < 10:
        start_ns, end_ns = found.steps.get(int(step), span)
        found.steps[int(step)] = (min(start_ns, span[0]), max(end_ns, span[1]))

"""kernel_details.csv of torch_npu: one row a kernel, with its step, and nothing of the host.

At the profiler's default level (Level0) there is no stream either: all kernels are of one stream then. A file of
several devices says so in Device_id.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from simtool.errors import TraceError
from simtool.trace.importers.chrome_json.times import to_span_ns
from simtool.trace.importers.ledger import Ledger
from simtool.trace.importers.timeline import WORKS, StepMark, Timeline, WorkKind, make_table

_NAME, _START, _DURATION, _STREAM, _STEP = "Name", "Start Time(us)", "Duration(us)", "Stream ID", "Step Id"
_REQUIRED = (_NAME, _START, _DURATION)
#: msprof's op_summary_*.csv is the same table under other names.
_OTHER_NAMES = {"Op Name": _NAME, "Task Start Time(us)": _START, "Task Duration(us)": _DURATION}
_DEVICES = ("Device_id", "Device ID", "Device Id")
_MAX_NS = (1 << 63) - 1


@dataclass
class KernelDetails:
    """The kernels of the table; a step's mark spans its kernels. streams: whether the table names them."""

    timeline: Timeline = field(default_factory=Timeline)
    streams: bool = True


def read_kernel_details(path: Path, ledger: Ledger) -> KernelDetails | None:
    """Read the table; rows that are no kernel of a stream are counted in the ledger. None: the file is empty.

    Raises TraceError when it cannot be read or lacks a column.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            table = csv.DictReader(file)
            if table.fieldnames is None:
                return None
            names = _names(table.fieldnames)
            table.fieldnames = names
            _check_columns(path, names)
            rows = _Rows(ledger, names)
            for row in table:
                rows.take(row, table.line_num)
    except (OSError, csv.Error) as error:
        raise TraceError(f"{path}: cannot be read as CSV ({error}); give the profiler's own file") from error
    marks = [StepMark(step, span) for step, span in sorted(rows.steps.items())]
    timeline = Timeline(works=make_table(WORKS, rows.works), marks=marks)
    return KernelDetails(timeline, streams=_STREAM in names)


def looks_like_kernel_details(header: str) -> bool:
    """Say whether a file's first line is the table's header."""
    names = _names([name.strip(' "\r\n\ufeff') for name in header.split(",")])
    return all(name in names for name in _REQUIRED)


def _names(columns: Sequence[str]) -> list[str]:
    return [_OTHER_NAMES.get(name.strip(), name.strip()) for name in columns]


def _check_columns(path: Path, columns: list[str]) -> None:
    if absent := [name for name in _REQUIRED if name not in columns]:
        shown = ", ".join(" ".join(name.split()) for name in columns[:8]) or "none"
        raise TraceError(f"{path}: no column {absent[0]!r}; it has {shown}; expected at least {', '.join(_REQUIRED)}")


class _Rows:
    def __init__(self, ledger: Ledger, columns: list[str]) -> None:
        self._ledger = ledger
        self._has_streams = _STREAM in columns
        self._device = next((name for name in _DEVICES if name in columns), None)
        self.works: list[tuple[object, ...]] = []
        self.steps: dict[int, tuple[int, int]] = {}

    def take(self, row: Mapping[str, str | None], line: int) -> None:
        name, stream = row[_NAME] or "", (row.get(_STREAM) or "").strip() if self._has_streams else "not said"
        if stream == "N/A":
            self._ledger.drop("communication operators, which span several streams")
            return
        span = to_span_ns(row[_START], row[_DURATION])
        if span is None or not stream or not -_MAX_NS <= span[0] <= span[1] <= _MAX_NS:
            example = f"line {line}: {name} {row[_START]} {row[_DURATION]}"
            self._ledger.reject("row of kernel_details.csv is no kernel", example)
            return
        device = (row.get(self._device) or "").strip() if self._device else ""
        label = f"device {device} stream {stream}" if device else f"stream {stream}"
        self.works.append((name, f"device {device or '-'}", label, WorkKind.KERNEL.value, *span, None, 0))
        step = (row.get(_STEP) or "").strip()
        if step.isdecimal() and len(step) < 10:
            start_ns, end_ns = self.steps.get(int(step), span)
            self.steps[int(step)] = (min(start_ns, span[0]), max(end_ns, span[1]))

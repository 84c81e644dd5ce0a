"""step_trace_time.csv: torch_npu's own sums of a step, to hold the import against."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from simtool.errors import TraceError
from simtool.trace.importers.ledger import Ledger
from simtool.trace.importers.timeline import WorkKind
from simtool.trace.importers.written import number

_STAGE, _FREE = "Stage", "Free"
_COMPUTING, _EXPOSED = "Computing", "Communication(Not Overlapped)"
_TOLERANCE, _LEAST_US = 0.02, 5.0
_NS_PER_US = 1000


@dataclass(frozen=True)
class ProfilerStepTimes:
    """Sums over the table's rows, in us: the device's time with work, communication alone, and neither."""

    computing_us: float
    communication_us: float
    free_us: float


def read_step_times(path: Path, ledger: Ledger) -> ProfilerStepTimes | None:
    """Read the table; rows that hold no numbers are counted. None when no row can be used."""
    sums = [0.0, 0.0, 0.0]
    rows = 0
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            for row in csv.DictReader(file):
                values = [number(row.get(name)) for name in (_COMPUTING, _EXPOSED, _FREE)]
                if any(value is None for value in values):
                    ledger.reject("row of step_trace_time.csv holds no times", f"{row}"[:80])
                    continue
                sums = [total + float(value or 0) for total, value in zip(sums, values, strict=True)]
                rows += 1
    except (OSError, csv.Error) as error:
        raise TraceError(f"{path}: cannot be read as CSV ({error}); give the profiler's own file") from error
    return ProfilerStepTimes(*sums) if rows else None


def compare(times: ProfilerStepTimes, works: pl.DataFrame) -> tuple[dict[str, object], list[str]]:
    """Hold the table's idle time against that of the imported work; return details, and a warning where they differ."""
    busy = works.filter(
        (pl.col("kind") == WorkKind.KERNEL.value) | pl.col("stream").cast(pl.String).str.contains("communication")
    )
    ordered = busy.select("start_ns", "end_ns").sort("start_ns", "end_ns")
    if ordered.is_empty():
        return {}, []
    reach_ns = pl.col("end_ns").cum_max()
    gaps = ordered.select((pl.col("start_ns") - reach_ns.shift()).clip(0).sum()).item()
    free_us = float(gaps or 0) / _NS_PER_US
    details: dict[str, object] = {
        "computing_us": times.computing_us,
        "communication_not_overlapped_us": times.communication_us,
        "free_us": times.free_us,
        "free_us_of_the_import": free_us,
    }
    allowed = max(_LEAST_US, _TOLERANCE * times.free_us)
    if abs(free_us - times.free_us) <= allowed:
        return details, []
    theirs, ours = f"{times.free_us / 1000:.4g} ms", f"{free_us / 1000:.4g} ms"
    return details, [
        f"step_trace_time.csv has the device free for {theirs}, the import for {ours}: one counts other work or steps"
    ]

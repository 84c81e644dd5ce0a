"""Public request traces: when requests came and how long they were. The file says by its content what it is.

- CSV: the Azure LLM inference trace, BurstGPT. JSON, as lines or a list: Mooncake, Qwen-Bailian, ShareGPT, and what
  the serving benchmarks of vLLM and SGLang save. Plain or gzip.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from simtool.errors import TraceError
from simtool.step.scheduler import Request
from simtool.trace.importers.given import check_file
from simtool.trace.importers.ledger import Ledger
from simtool.trace.importers.request_traces.csv_formats import looks_like_csv, read_csv
from simtool.trace.importers.request_traces.json_formats import MARKS, read_json
from simtool.trace.importers.request_traces.text import read_head, read_text
from simtool.units import TimeUnit

_HEAD_BYTES = 1 << 16
_EVENT_MARK = re.compile(r'"(traceEvents|ph)"\s*:')


@dataclass(frozen=True)
class RequestTrace:
    """requests: in order of arrival, the first at 0 ns. `max_new_tokens` is the length that the trace recorded.

    notes: what a reader should know of its figures, a sentence each.
    """

    source: Path
    format: str
    requests: list[Request]
    ledger: Ledger
    notes: tuple[str, ...] = ()

    @property
    def frame(self) -> pl.DataFrame:
        """The same as a frame: request_id, arrival_ns, prompt_tokens, output_tokens."""
        rows = [(r.request_id, r.arrival_ns, r.prompt_tokens, r.max_new_tokens) for r in self.requests]
        schema = {"request_id": pl.String, "arrival_ns": pl.Int64, "prompt_tokens": pl.Int32, "output_tokens": pl.Int32}
        return pl.DataFrame(rows, schema=schema, orient="row")

    @property
    def warnings(self) -> list[str]:
        """Everything to be told: what was rejected, then the notes."""
        return [*self.ledger.warnings(), *self.notes]


def is_request_trace(path: Path) -> bool:
    """Say whether a file's beginning looks like a request trace: a CSV header, or JSON with the keys of one."""
    head = read_head(path, _HEAD_BYTES).lstrip()
    if head.startswith(("{", "[")):
        return not _EVENT_MARK.search(head) and any(f'"{mark}"' in head for mark in MARKS)
    return looks_like_csv(head.split("\n", 1)[0])


def read_requests(path: Path, unit: TimeUnit | None = None) -> RequestTrace:
    """Read a request trace; rows that cannot be used are counted in the ledger by reason.

    A request is named after its line or entry. unit: of numeric timestamps whose unit the file does not say.
    Raises TraceError when the file cannot be read, is of no known format, or has no usable row.
    """
    check_file(path)
    ledger = Ledger()
    text = read_text(path, ledger)
    first = text.lstrip().split("\n", 1)[0]
    if first.startswith(("{", "[")):
        found = read_json(text, path, ledger, unit)
    elif looks_like_csv(first):
        if unit is not None:
            raise TraceError(f"{path}: --time-unit has no effect on CSV, whose formats say theirs; leave it out")
        found = read_csv(text, path, ledger)
    else:
        raise TraceError(f"{path}: starts with {first[:40]!r}; expected a CSV header or a line of JSON")
    rows = sorted(found.rows, key=lambda row: row.arrival_ns)
    if not rows:
        reasons = "; ".join(ledger.warnings()) or "it has no rows"
        raise TraceError(f"{path}: no usable request in this {found.format} trace: {reasons}")
    requests = [
        Request(row.name, row.prompt_tokens, row.output_tokens, row.arrival_ns - rows[0].arrival_ns) for row in rows
    ]
    return RequestTrace(source=path, format=found.format, requests=requests, ledger=ledger, notes=tuple(found.notes))

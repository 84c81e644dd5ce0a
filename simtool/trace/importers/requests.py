"""Public request traces: when requests came and how long they were. Two formats, told apart by the first line.

- Azure LLM inference trace, CSV: TIMESTAMP, ContextTokens, GeneratedTokens; timestamps to 100 ns or finer.
- Mooncake trace, JSON lines: timestamp (ms from the start), input_length, output_length.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from simtool.errors import TraceError
from simtool.step.scheduler import Request
from simtool.trace.importers.ledger import Ledger
from simtool.units import NS_PER_MS, NS_PER_S

_AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_MOONCAKE = ("timestamp", "input_length", "output_length")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?")
_MAX_TOKENS = 2**31 - 1

#: One row of either format: arrival in ns on its own clock, prompt tokens, output tokens.
Row = tuple[int, int, int]


@dataclass(frozen=True)
class RequestTrace:
    """requests: in order of arrival, the first at 0 ns. `max_new_tokens` is the length that the trace recorded."""

    source: Path
    format: str
    requests: list[Request]
    ledger: Ledger

    @property
    def frame(self) -> pl.DataFrame:
        """The same as a frame: request_id, arrival_ns, prompt_tokens, output_tokens."""
        rows = [(r.request_id, r.arrival_ns, r.prompt_tokens, r.max_new_tokens) for r in self.requests]
        schema = {"request_id": pl.String, "arrival_ns": pl.Int64, "prompt_tokens": pl.Int32, "output_tokens": pl.Int32}
        return pl.DataFrame(rows, schema=schema, orient="row")


def read_requests(path: Path) -> RequestTrace:
    """Read a request trace; rows that cannot be used are counted in the ledger by reason.

    A request is named after its line in the file. Raises TraceError when the file cannot be read, is of neither
    format, or has no usable row.
    """
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise TraceError(
            f"{path}: cannot be read ({error.strerror}); give a request trace, CSV or JSON lines"
        ) from error
    first = text.lstrip().split("\n", 1)[0]
    ledger = Ledger()
    if first.startswith("{"):
        name, rows = "mooncake", _mooncake(text, ledger)
    elif "," in first:
        name, rows = "azure", _azure(text, path, ledger)
    else:
        raise TraceError(f"{path}: starts with {first[:40]!r}; expected a CSV header or a line of JSON")
    found = sorted(((row, line) for line, row in rows), key=lambda item: (item[0][0], item[1]))
    if not found:
        reasons = "; ".join(ledger.warnings()) or "it has no rows"
        raise TraceError(f"{path}: no usable request in this {name} trace: {reasons}")
    zero_ns = found[0][0][0]
    requests = [Request(f"line-{line}", row[1], row[2], row[0] - zero_ns) for row, line in found]
    return RequestTrace(path, name, requests, ledger)


def _azure(text: str, path: Path, ledger: Ledger) -> Iterator[tuple[int, Row]]:
    reader = csv.DictReader(text.splitlines())
    names = [name.strip() for name in reader.fieldnames or ()]
    if absent := [name for name in _AZURE if name not in names]:
        raise TraceError(f"{path}: no column {absent[0]!r} among {', '.join(names)}; expected {', '.join(_AZURE)}")
    reader.fieldnames = names
    for fields in reader:
        values = [fields[name] for name in _AZURE]
        yield from _row(reader.line_num, values, _stamp_ns, ledger)


def _mooncake(text: str, ledger: Ledger) -> Iterator[tuple[int, Row]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except ValueError:
            ledger.reject("line is not JSON", f"line {number}: {line}")
            continue
        if not isinstance(fields, dict):
            ledger.reject("line is not a JSON table", f"line {number}: {line}")
            continue
        yield from _row(number, [fields.get(name) for name in _MOONCAKE], _ms_to_ns, ledger)


def _row(
    line: int, values: list[object], to_ns: Callable[[object], int | None], ledger: Ledger
) -> Iterator[tuple[int, Row]]:
    """Yield the row, or reject it and say why. A request without a prompt or an output cannot be served."""
    arrival_ns, prompt, output = to_ns(values[0]), _tokens(values[1]), _tokens(values[2])
    example = f"line {line}: {values}"
    if arrival_ns is None:
        ledger.reject("arrival is no time", example)
    elif prompt is None or output is None:
        ledger.reject("a length is no whole number", example)
    elif prompt < 1 or output < 1:
        ledger.reject("prompt or output has no token", example)
    else:
        yield line, (arrival_ns, prompt, output)


def _stamp_ns(value: object) -> int | None:
    match = _STAMP.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{zone or '+00:00'}")
    except ValueError:
        return None
    seconds = round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    return seconds * NS_PER_S + int((fraction or "").ljust(9, "0"))


def _ms_to_ns(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        return None
    return round(value * NS_PER_MS)


def _tokens(value: object) -> int | None:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _MAX_TOKENS:
        return None
    return value

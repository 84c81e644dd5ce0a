"""Reading trace-event JSON (array or object form, plain or gzip) as far as it is sound.

Profilers are stopped, disks fill up: a file may end in the middle, or with a comma. Whatever comes before is kept,
and the loss goes into the ledger. Numbers keep their decimals, because a double cannot hold microseconds since 1970
to the nanosecond.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from simtool.errors import TraceError
from simtool.trace.importers.ledger import Ledger
from simtool.units import NS_PER_US

_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK_BYTES = 1 << 20
_EVENTS_KEY = re.compile(r'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder(parse_float=Decimal)
_MAX_US = 9 * 10**15  # what 64 bits of nanoseconds hold


@dataclass(frozen=True)
class ChromeTrace:
    """header: the keys beside traceEvents. events: JSON tables, in the order of the file."""

    header: Mapping[str, Any]
    events: list[dict[str, Any]]


def read_chrome(path: Path, ledger: Ledger) -> ChromeTrace:
    """Read a trace-event file; events that are no tables and a broken end are counted in the ledger.

    Raises TraceError when the file cannot be read or holds no list of events.
    """
    text = _read_text(path, ledger)
    try:
        document = _DECODER.decode(text.strip())
    except (ValueError, RecursionError):
        document = _salvage(text, path, ledger)
    header = document if isinstance(document, dict) else {}
    events = header.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        raise TraceError(f"{path}: has no list of trace events; expected a JSON array, or an object with traceEvents")
    tables = []
    for event in events:
        if isinstance(event, dict):
            tables.append(event)
        else:
            ledger.reject("event is not a JSON table", event)
    return ChromeTrace({key: value for key, value in header.items() if key != "traceEvents"}, tables)


def span_ns(event: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return start and end in ns from `ts` and `dur` in us (numbers or texts), or None when they are no span."""
    return to_span_ns(event.get("ts"), event.get("dur"))


def to_span_ns(start_us: object, duration_us: object) -> tuple[int, int] | None:
    """Return start and end in ns, each rounded once, or None when the two are no span."""
    start, duration = _us(start_us), _us(duration_us)
    if start is None or duration is None or duration < 0:
        return None
    return round(start * NS_PER_US), round((start + duration) * NS_PER_US)


def _us(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return None
    try:
        number = Decimal(value.strip() if isinstance(value, str) else value)
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number) < _MAX_US else None


def _read_text(path: Path, ledger: Ledger) -> str:
    try:
        with path.open("rb") as file:
            is_gzip = file.read(2) == _GZIP_MAGIC
        data = _read_gzip(path, ledger) if is_gzip else path.read_bytes()
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror}); give a trace in JSON, plain or .gz") from error
    return data.decode("utf-8-sig", errors="replace")


def _read_gzip(path: Path, ledger: Ledger) -> bytes:
    data = bytearray()
    with gzip.open(path) as file:
        try:
            while chunk := file.read1(_CHUNK_BYTES):
                data += chunk
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            ledger.reject("compressed data is damaged or ends early", f"after {len(data)} bytes: {error}")
    return bytes(data)


def _salvage(text: str, path: Path, ledger: Ledger) -> dict[str, Any]:
    """Decode event after event until the text breaks off; a trailing comma breaks nothing."""
    key = _EVENTS_KEY.search(text)
    if key is None and not text.lstrip().startswith("["):
        raise TraceError(f"{path}: is not trace-event JSON, nor the beginning of any; give a profiler's JSON file")
    start = key.end() if key else text.index("[") + 1
    events, end = _events_from(text, start, ledger)
    if key is None:
        return {"traceEvents": events}
    header = _header(text[:start], text[end:], ledger)
    return {**header, "traceEvents": events}


def _events_from(text: str, at: int, ledger: Ledger) -> tuple[list[Any], int]:
    """The events from a position on, and where their list ends (the end of the text when it breaks off)."""
    events: list[Any] = []
    while True:
        between = _BETWEEN.match(text, at)
        at = between.end() if between else at
        if text[at : at + 1] == "]":
            return events, at
        try:
            event, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            ledger.reject(
                "JSON breaks off, the rest is lost", f"at character {at} of {len(text)}: {text[at : at + 40]}"
            )
            return events, len(text)
        events.append(event)


def _header(before: str, after: str, ledger: Ledger) -> dict[str, Any]:
    """The keys around the list of events; of a text that breaks off, those before it."""
    for rest in (after, "]}"):
        try:
            header = _DECODER.decode((before + rest).strip())
        except ValueError:
            continue
        if rest is not after and after:
            ledger.reject("keys behind the events are lost", after[:40])
        return header if isinstance(header, dict) else {}
    return {}

"""One row of a request trace, and the values in it: times of every spelling, lengths as numbers or texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from simtool.trace.importers.ledger import Ledger
from simtool.trace.importers.written import number, whole
from simtool.units import NS_PER_S, TimeUnit

_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d+))?\s*([Zz]|[+-]\d\d(?::?\d\d)?)?")
_MAX_TOKENS = 2**31 - 1
_MAX_NS = 10**18  # thirty years; what is later is no time of a request


@dataclass(frozen=True)
class Row:
    """A usable request. name: unique in the trace; arrival_ns: on the trace's own clock; lengths in tokens."""

    name: str
    arrival_ns: int
    prompt_tokens: int
    output_tokens: int


@dataclass
class FoundRequests:
    """A format's name, its rows, and what a reader should know of them (a sentence each)."""

    format: str
    rows: Iterable[Row]
    notes: list[str] = field(default_factory=list)


def make_row(name: str, arrival_ns: int | None, lengths: tuple[object, object], ledger: Ledger) -> Iterator[Row]:
    """Yield the row, or reject it and say why. A request without a prompt or an output cannot be served."""
    prompt, output = tokens(lengths[0]), tokens(lengths[1])
    example = f"{name.replace('-', ' ')}: lengths {lengths[0]!r}, {lengths[1]!r}"
    if arrival_ns is None:
        ledger.reject("arrival is no time", example)
    elif prompt is None or output is None:
        ledger.reject("a length is no whole number", example)
    elif prompt < 1 or output < 1:
        ledger.reject("prompt or output has no token", example)
    else:
        yield Row(name, arrival_ns, prompt, output)


def stamp_ns(value: object) -> int | None:
    """Return ns since 1970 of a date and time, UTC unless it carries a zone; None when it is none."""
    match = _STAMP.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{(zone or '+00:00').upper()}")
    except ValueError:
        return None
    seconds = round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    return seconds * NS_PER_S + int((fraction or "")[:9].ljust(9, "0"))


def number_ns(value: object, unit: TimeUnit) -> int | None:
    """Return the ns of a number (or a number's text) of that unit, rounded once; None when it is none."""
    found = number(value)
    if found is None:
        return None
    scaled = found * unit.ns
    return round(scaled) if abs(scaled) < _MAX_NS else None


def tokens(value: object) -> int | None:
    """Return a count of tokens: a whole number, also as text or as 374.0; None when it is none."""
    count = whole(value)
    return count if count is not None and abs(count) <= _MAX_TOKENS else None

"""Request traces in CSV: Azure's (date and time) and BurstGPT's (seconds), told apart by their columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from simtool.errors import TraceError
from simtool.trace.importers.ledger import Ledger, one_line
from simtool.trace.importers.request_traces.rows import FoundRequests, Row, make_row, number_ns, stamp_ns
from simtool.units import TimeUnit

_DELIMITERS = ",;\t"


@dataclass(frozen=True)
class _Format:
    """columns: of the arrival, the prompt's length and the output's."""

    name: str
    columns: tuple[str, str, str]
    to_ns: Callable[[object], int | None]


_FORMATS = (
    _Format("azure", ("TIMESTAMP", "ContextTokens", "GeneratedTokens"), stamp_ns),
    _Format("BurstGPT", ("Timestamp", "Request tokens", "Response tokens"), lambda value: number_ns(value, TimeUnit.S)),
)


def looks_like_csv(first_line: str) -> bool:
    """Say whether a first line may be a CSV header."""
    return any(mark in first_line for mark in _DELIMITERS)


def read_csv(text: str, path: Path, ledger: Ledger) -> FoundRequests:
    """Find the format by the header; raises TraceError naming the column that is absent."""
    header = text.lstrip().split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=header.count)
    reader = csv.DictReader(io.StringIO(text.lstrip(), newline=""), delimiter=delimiter)
    names = [name.strip() for name in reader.fieldnames or ()]
    chosen = max(_FORMATS, key=lambda each: sum(name in names for name in each.columns))
    if absent := [name for name in chosen.columns if name not in names]:
        expected = "; or ".join(f"{', '.join(each.columns)} ({each.name})" for each in _FORMATS)
        raise TraceError(f"{path}: no column {absent[0]!r} among {one_line(', '.join(names))}; expected {expected}")
    reader.fieldnames = names
    return FoundRequests(chosen.name, _rows(reader, chosen, path, ledger))


def _rows(reader: csv.DictReader[str], chosen: _Format, path: Path, ledger: Ledger) -> Iterator[Row]:
    try:
        for fields in reader:
            arrival, prompt, output = (fields[name] for name in chosen.columns)
            arrival_ns = chosen.to_ns(arrival)
            name = f"line-{reader.line_num}"
            if any(fields.get(None) or ()):  # None: where csv puts cells too many
                ledger.reject("more cells than the heading has", f"line {reader.line_num}: {[arrival, prompt, output]}")
            elif arrival_ns is None:
                ledger.reject("arrival is no time", f"line {reader.line_num}: {[arrival, prompt, output]}")
            else:
                yield from make_row(name, arrival_ns, (prompt, output), ledger)
    except csv.Error as error:
        raise TraceError(f"{path}: line {reader.line_num} is no CSV ({error}); mend it or cut it out") from error

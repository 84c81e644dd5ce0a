"""Request traces in JSON: lines, a list, or one object.

- Mooncake: timestamp in ms from the start, input_length, output_length. Qwen-Bailian traces have the same three keys
  with the timestamp in **seconds**; they are known by their chat_id. Where neither is plain the caller must say.
- ShareGPT: texts without times; lengths are estimated, and said to be.
- What a serving benchmark of vLLM or SGLang saved: input_lens, output_lens, and start_times (s) where it has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from simtool.errors import TraceError
from simtool.trace.importers.ledger import Ledger, one_line
from simtool.trace.importers.request_traces.rows import FoundRequests, Row, make_row, number_ns
from simtool.units import NS_PER_S, TimeUnit

_MOONCAKE = ("timestamp", "input_length", "output_length")
_BENCHMARK = ("input_lens", "output_lens")
#: Keys that only Qwen-Bailian's traces have, whose times are seconds.
_SECONDS_KEYS = ("chat_id", "parent_chat_id")
_CHARACTERS_A_TOKEN = 4
_ODD_RATE_A_SECOND = 1000.0
#: Words by which the beginning of a file shows one of these formats.
MARKS = ("input_length", "input_lens", "conversations")

Entry = tuple[str, dict[str, Any]]


def read_json(text: str, path: Path, ledger: Ledger, unit: TimeUnit | None) -> FoundRequests:
    """Find the format by the keys of the first entry. unit: of Mooncake's timestamps; None: as the keys say.

    Raises TraceError when no entry has the keys of a format, or the unit cannot be told.
    """
    entries = list(_entries(text, ledger))
    if any(_has(fields, _BENCHMARK) for _, fields in entries):
        _no_unit(unit, path, "benchmark records")
        return _benchmark(entries, ledger)
    if any("conversations" in fields for _, fields in entries):
        _no_unit(unit, path, "ShareGPT")
        return _share_gpt(entries, ledger)
    if not any(name in fields for _, fields in entries for name in _MOONCAKE):
        reasons = "; ".join(ledger.warnings())
        keys = (
            one_line(", ".join(list(entries[0][1])[:8]))
            if entries
            else f"no JSON table{f' ({reasons})' if reasons else ''}"
        )
        raise TraceError(
            f"{path}: has {keys or 'no key'}; expected {', '.join(_MOONCAKE)} (Mooncake), conversations (ShareGPT), or "
            f"{', '.join(_BENCHMARK)} (a saved benchmark of vLLM, with --save-detailed, or SGLang)"
        )
    return _mooncake(entries, path, ledger, unit)


def _entries(text: str, ledger: Ledger) -> Iterator[Entry]:
    """Yield (name, table) of every entry: of a list, of one object over many lines, or of JSON lines."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        yield from _lines(text, ledger)
        return
    if isinstance(document, dict):
        yield "line-1", document
        return
    for number, entry in enumerate(document if isinstance(document, list) else [document], start=1):
        if isinstance(entry, dict):
            yield f"entry-{number}", entry
        else:
            ledger.reject("entry is not a JSON table", f"entry {number}: {entry!r}")


def _lines(text: str, ledger: Ledger) -> Iterator[Entry]:
    """JSON lines end at a line feed; U+2028 and the like are letters of a text."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            ledger.reject("line is not JSON", f"line {number}: {line}")
            continue
        if isinstance(fields, dict):
            yield f"line-{number}", fields
        else:
            ledger.reject("line is not a JSON table", f"line {number}: {line}")


def _mooncake(entries: Sequence[Entry], path: Path, ledger: Ledger, asked: TimeUnit | None) -> FoundRequests:
    in_seconds = any(name in fields for _, fields in entries for name in _SECONDS_KEYS)
    unit = asked or _unit(entries, path, in_seconds)
    rows = [
        row
        for name, fields in entries
        for row in _mooncake_row(name, [fields.get(key) for key in _MOONCAKE], unit, ledger)
    ]
    notes = [] if asked else _odd_rate(rows, unit)
    return FoundRequests("qwen-bailian" if in_seconds else "mooncake", rows, notes)


def _mooncake_row(name: str, values: list[object], unit: TimeUnit, ledger: Ledger) -> Iterator[Row]:
    arrival_ns = number_ns(values[0], unit)
    if arrival_ns is None:
        ledger.reject("arrival is no time", f"{name.replace('-', ' ')}: {values}")
        return
    yield from make_row(name, arrival_ns, (values[1], values[2]), ledger)


def _unit(entries: Sequence[Entry], path: Path, in_seconds: bool) -> TimeUnit:
    """Seconds by Qwen-Bailian's keys; else milliseconds, which Mooncake writes whole: fractions are neither's."""
    if in_seconds:
        return TimeUnit.S
    for name, fields in entries:
        ns = number_ns(fields.get("timestamp"), TimeUnit.S)
        if ns is not None and ns % NS_PER_S:
            raise TraceError(
                f"{path}: {name.replace('-', ' ')} has timestamp {one_line(fields['timestamp'], 40)}, and nothing "
                "says whether that is seconds or milliseconds (Mooncake writes whole ones); give --time-unit s or "
                "--time-unit ms"
            )
    return TimeUnit.MS


def _odd_rate(rows: Sequence[Row], unit: TimeUnit) -> list[str]:
    """Tell of a rate that no service of this kind has: the unit may be the other one."""
    arrivals = [row.arrival_ns for row in rows]
    span_ns = max(arrivals, default=0) - min(arrivals, default=0)
    rate = len(rows) / span_ns * NS_PER_S if span_ns else 0.0
    if unit is not TimeUnit.MS or rate <= _ODD_RATE_A_SECOND or len(rows) < 10:
        return []
    return [f"{rate:,.0f} requests a second, read as milliseconds; if the times are seconds, give --time-unit s"]


def _share_gpt(entries: Sequence[Entry], ledger: Ledger) -> FoundRequests:
    """First turn and first reply of each conversation, as the serving benchmarks take them."""
    rows: list[Row] = []
    for name, fields in entries:
        turns = fields.get("conversations")
        texts = [turn.get("value") for turn in turns if isinstance(turn, dict)] if isinstance(turns, list) else []
        if len(texts) < 2 or not all(isinstance(text, str) for text in texts[:2]):
            ledger.reject("conversation has no turn and reply", f"{name.replace('-', ' ')}: {str(turns)[:60]}")
            continue
        lengths = tuple(-(-len(str(text)) // _CHARACTERS_A_TOKEN) for text in texts[:2])
        rows.extend(make_row(name, 0, (lengths[0], lengths[1]), ledger))
    notes = [
        f"lengths are estimated, {_CHARACTERS_A_TOKEN} characters a token: ShareGPT holds texts, not tokens",
        "all requests arrive at once: ShareGPT holds no times",
    ]
    return FoundRequests("ShareGPT", rows, notes)


def _benchmark(entries: Sequence[Entry], ledger: Ledger) -> FoundRequests:
    """The requests of one run; of several runs in a file, one after another, the first is taken."""
    records = [(name, fields) for name, fields in entries if _has(fields, _BENCHMARK)]
    _, fields = records[0]
    ledger.drop("further benchmark runs in the file", len(records) - 1)
    prompts, outputs = _list(fields["input_lens"]), _list(fields["output_lens"])
    starts, errors = _list(fields.get("start_times")), _list(fields.get("errors"))
    timed = len(starts) == len(prompts)
    rows: list[Row] = []
    for i in range(max(len(prompts), len(outputs))):
        name = f"entry-{i + 1}"
        if i < len(errors) and errors[i]:
            ledger.reject("request failed in the benchmark", f"entry {i + 1}: {errors[i]}")
            continue
        lengths = (prompts[i] if i < len(prompts) else None, outputs[i] if i < len(outputs) else None)
        rows.extend(make_row(name, number_ns(starts[i], TimeUnit.S) if timed else 0, lengths, ledger))
    notes = [] if timed else ["all requests arrive at once: the record has no start_times"]
    return FoundRequests("serving benchmark", rows, notes)


def _no_unit(unit: TimeUnit | None, path: Path, what: str) -> None:
    if unit is not None:
        raise TraceError(f"{path}: --time-unit has no effect on {what}; leave it out")


def _has(fields: dict[str, Any], names: Sequence[str]) -> bool:
    return all(name in fields for name in names)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []

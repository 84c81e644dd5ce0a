"""SGLang's own records of DSpark steps (SGLANG_DSPARK_DEBUG_DUMP) -> a step log.

One JSON table, as /server_info gives it, alone or inside that answer: gamma, the drafts per block, and a record for
each decode step. `reqs` (component "reqs") has the sequences: committed tokens before the step, rows offered with the
anchor's, tokens committed, confidence. There are no time stamps: steps stand one after another, each as long as
`step_cpu_ms` says.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from simtool.errors import TraceError
from simtool.trace.importers.ledger import Ledger
from simtool.trace.importers.step_log.lines import VERSION, Count, Header, LoggedStep, fault, without_places
from simtool.units import NS_PER_MS

_KEYS = ("gamma", "records", "verify_num_draft_tokens")
#: Words by which the beginning of a file, or of the table in it, shows these records.
MARK = '"verify_num_draft_tokens"'
_DURATIONS = ("step_cpu_ms", "step_gpu_ms")


#: Of one step; hours, so that not even a million of them leave 64 bits of ns.
_Ms = Annotated[float, msgspec.Meta(ge=0, le=1e7)]


class _Sequence(msgspec.Struct, frozen=True):
    prefix_len: Count
    verify_len: Count
    acc_len: Count
    req_pool_index: int
    rid: str | None = None
    confidence: list[float | None] | None = None
    draft_tokens: list[int] | None = None


class _Record(msgspec.Struct, frozen=True):
    forward_ct: Count
    step_cpu_ms: _Ms | None = None
    step_gpu_ms: _Ms | None = None
    reqs: list[_Sequence] | None = None


def read_sglang(path: Path, text: bytes, ledger: Ledger) -> tuple[Header, list[LoggedStep], list[str]] | None:
    """Return header, steps and what is to be told, or None where the text holds no such table.

    A number that is NaN, which Python writes and JSON does not have, is not said. Raises TraceError when its header or
    all of its records cannot be read, or they have no sequences.
    """
    try:
        table = _find(json.loads(text, parse_constant=lambda _: None))
    except (ValueError, RecursionError):
        return None
    if table is None or not isinstance(table["records"], list):
        return None
    header = _header(table["gamma"], path)
    records = list(_records(table["records"], ledger))
    if ledger.rejected and not records:
        raise TraceError(f"{path}: none of SGLang's records can be read: {'; '.join(ledger.warnings())}")
    if not any(record.reqs for record in records):
        raise TraceError(
            f"{path}: SGLang's records without their sequences; record with "
            "SGLANG_DSPARK_DEBUG_DUMP=core,step_cpu_time,reqs"
        )
    steps = list(_steps(records, header.sl, ledger))
    return header, steps, ["SGLang's records have no time stamps: steps stand one after another, as long as each took"]


def _header(gamma: object, path: Path) -> Header:
    known = {"line": "header", "version": VERSION, "engine": "SGLang", "algorithm": "dspark"}
    try:
        return msgspec.convert({**known, "sl": gamma, "clock": "from the first step"}, Header, strict=False)
    except msgspec.ValidationError as error:
        raise TraceError(f"{path}: gamma, SGLang's drafts per block: {error}") from error


def _find(value: Any) -> dict[str, Any] | None:
    """The table of records, wherever it stands in an answer of the server."""
    inner: Sequence[Any] = ()
    if isinstance(value, dict):
        if all(key in value for key in _KEYS):
            return value
        inner = list(value.values())
    elif isinstance(value, list):
        inner = value
    return next((found for each in inner if (found := _find(each)) is not None), None)


def _records(raw: list[Any], ledger: Ledger) -> Iterator[_Record]:
    for number, record in enumerate(raw, start=1):
        try:
            yield msgspec.convert(record, _Record, strict=False)  # some write whole numbers as 3.0
        except msgspec.ValidationError as error:
            reason = f"record is not as SGLang writes it: {without_places(error)}"
            ledger.reject(reason, f"record {number}: {str(record)[:80]}")


def _steps(records: Sequence[_Record], sl: int, ledger: Ledger) -> Iterator[LoggedStep]:
    known = [ms for record in records for ms in (record.step_cpu_ms,) if ms is not None]
    usual_ms = statistics.median(known) if known else 0.0
    at_ns = 0
    for record in records:
        durations = (getattr(record, name) for name in _DURATIONS)
        lasted_ms = next((ms for ms in durations if ms is not None), usual_ms)
        end_ns = at_ns + round(lasted_ms * NS_PER_MS)
        if record.reqs:
            try:
                step = msgspec.convert(_line(record.forward_ct, (at_ns, end_ns), record.reqs, sl), LoggedStep)
                wrong = fault(step, sl)
            except msgspec.ValidationError as error:
                wrong = without_places(error)
            if wrong:
                ledger.reject(f"step: {wrong}", f"forward {record.forward_ct}")
            else:
                yield step
        at_ns = end_ns


def _line(number: int, span_ns: tuple[int, int], rows: Sequence[_Sequence], sl: int) -> dict[str, object]:
    """The record as a line of a step log would have it."""
    offered = [row.verify_len - 1 for row in rows]
    accepted = [min(max(row.acc_len - 1, 0), p) for row, p in zip(rows, offered, strict=True)]
    return {
        "line": "step",
        "step": number,
        "start_ns": span_ns[0],
        "end_ns": span_ns[1],
        "request": [row.rid or f"slot-{row.req_pool_index}" for row in rows],
        "anchor": [row.prefix_len for row in rows],
        "prefix_len": offered,
        "accepted": accepted,
        "emitted": [min(max(row.acc_len, 1), a + 1) for row, a in zip(rows, accepted, strict=True)],
        "confidence": [_last(row.confidence, sl) for row in rows],
        "draft_tokens": [_last(row.draft_tokens, sl) for row in rows],
    }


def _last(values: Sequence[float | None] | None, count: int) -> Sequence[float | None] | None:
    """The block's own values: an anchor before them is left out; null where there are fewer, or one is not known."""
    own = values[-count:] if values is not None and len(values) >= count else [None]
    return None if None in own else own

"""SGLang's own records of DSpark steps (SGLANG_DSPARK_DEBUG_DUMP) -> a step log.

One JSON table, as /server_info gives it, alone or inside that answer: gamma, the drafts per block, and a record for
each decode step. `reqs` (component "reqs") has the sequences: committed tokens before the step, rows offered with the
anchor's, tokens committed, confidence. There are no time stamps: steps stand one after another, each as long as
`step_cpu_ms` says.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from simtool.errors import TraceError
from simtool.trace.importers.ledger import Ledger
from simtool.trace.importers.step_log.lines import VERSION, Header, LoggedStep, fault
from simtool.units import NS_PER_MS

_Value = TypeVar("_Value", int, float)
_KEYS = ("gamma", "records", "verify_num_draft_tokens")
#: Words by which the beginning of a file, or of the table in it, shows these records.
MARK = '"verify_num_draft_tokens"'
_DURATIONS = ("step_cpu_ms", "step_gpu_ms")


class _Sequence(msgspec.Struct, frozen=True):
    prefix_len: int
    verify_len: int
    acc_len: int
    req_pool_index: int
    rid: str | None = None
    confidence: list[float] | None = None
    draft_tokens: list[int] | None = None


class _Record(msgspec.Struct, frozen=True):
    forward_ct: int
    step_cpu_ms: float | None = None
    step_gpu_ms: float | None = None
    reqs: list[_Sequence] | None = None


def read_sglang(path: Path, text: bytes, ledger: Ledger) -> tuple[Header, list[LoggedStep], list[str]] | None:
    """Return header, steps and what is to be told, or None where the text holds no such table.

    Raises TraceError when its records have no sequences.
    """
    try:
        table = _find(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return None
    if table is None or not isinstance(table["gamma"], int) or not isinstance(table["records"], list):
        return None
    records = list(_records(table["records"], ledger))
    if not any(record.reqs for record in records):
        raise TraceError(
            f"{path}: SGLang's records without their sequences; record with "
            "SGLANG_DSPARK_DEBUG_DUMP=core,step_cpu_time,reqs"
        )
    header = Header(
        version=VERSION, engine="SGLang", sl=table["gamma"], algorithm="dspark", clock="from the first step"
    )
    steps = list(_steps(records, table["gamma"], ledger))
    return header, steps, ["SGLang's records have no time stamps: steps stand one after another, as long as each took"]


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
            yield msgspec.convert(record, _Record)
        except msgspec.ValidationError as error:
            ledger.reject(f"record is not as SGLang writes it: {error}", f"record {number}: {str(record)[:80]}")


def _steps(records: Sequence[_Record], sl: int, ledger: Ledger) -> Iterator[LoggedStep]:
    known = [ms for record in records for ms in (record.step_cpu_ms,) if ms is not None]
    usual_ms = statistics.median(known) if known else 0.0
    at_ns = 0
    for record in records:
        durations = (getattr(record, name) for name in _DURATIONS)
        lasted_ms = next((ms for ms in durations if ms is not None), usual_ms)
        end_ns = at_ns + round(lasted_ms * NS_PER_MS)
        if record.reqs:
            step = _step(record.forward_ct, (at_ns, end_ns), record.reqs, sl)
            wrong = fault(step, sl)
            if wrong:
                ledger.reject(f"step: {wrong}", f"forward {record.forward_ct}")
            else:
                yield step
        at_ns = end_ns


def _step(number: int, span_ns: tuple[int, int], rows: Sequence[_Sequence], sl: int) -> LoggedStep:
    offered = [row.verify_len - 1 for row in rows]
    accepted = [min(max(row.acc_len - 1, 0), p) for row, p in zip(rows, offered, strict=True)]
    return LoggedStep(
        step=number,
        start_ns=span_ns[0],
        end_ns=span_ns[1],
        request=[row.rid or f"slot-{row.req_pool_index}" for row in rows],
        anchor=[row.prefix_len for row in rows],
        prefix_len=offered,
        accepted=accepted,
        emitted=[min(max(row.acc_len, 1), a + 1) for row, a in zip(rows, accepted, strict=True)],
        confidence=[_last(row.confidence, sl) for row in rows],
        draft_tokens=[_last(row.draft_tokens, sl) for row in rows],
    )


def _last(values: list[_Value] | None, count: int) -> list[_Value] | None:
    """The block's own values: an anchor before them is left out; null where there are fewer."""
    return values[-count:] if values is not None and len(values) >= count else None

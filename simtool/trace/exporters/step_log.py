"""A trace as a step log (docs/step-log.md): what a serving engine would have told of the same run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import polars as pl

from simtool.errors import TraceError
from simtool.files.writing import whole_file
from simtool.step.ops import Lane
from simtool.trace.importers.step_log.lines import VERSION, Header, Line, LoggedStep, RequestLine
from simtool.trace.trace import Trace

_T = TypeVar("_T")

_KEPT = ("executors", "graphs", "closed_loop")
_PER_SEQUENCE = {
    "request": "request_id",
    "anchor": "anchor_position",
    **{name: name for name in ("prefix_len", "accepted", "emitted", "slot", "fresh")},
}
_IF_ANY = ("confidence", "draft_prob", "draft_tokens")


def export_step_log(trace: Trace, path: Path) -> int:
    """Write a trace's steps, rows, requests and host ops, and return how many lines were written.

    Raises TraceError when the trace holds no step.
    """
    if not trace.height("steps"):
        raise TraceError(f"{trace.path}: holds no step, so there is no step log to write")
    encoder, count = msgspec.json.Encoder(), 0
    with whole_file(path) as file:
        for line in _lines(trace):
            file.write(encoder.encode(line) + b"\n")
            count += 1
    return count


def _lines(trace: Trace) -> Iterator[Line]:
    yield _header(trace)
    yield from _requests(trace)
    yield from _steps(trace)


def _header(trace: Trace) -> Header:
    m = trace.manifest
    temperature = m.sampling.get("temperature")
    return Header(
        version=VERSION,
        engine=m.engine,
        engine_version=m.engine_version,
        sl=m.sl,
        algorithm=m.algorithm,
        clock=m.clock,
        device=m.device,
        device_name=m.device_name,
        models=m.models,
        block_width=m.block_width,
        concurrency=m.concurrency,
        placement=str(m.placement["name"]) if m.placement else None,
        temperature=float(temperature) if isinstance(temperature, int | float) else None,
        controller=m.controller,
        details={name: m.details[name] for name in _KEPT if name in m.details},
        block_size=m.run.block_size,
        kv_blocks=m.run.kv_blocks,
    )


def _requests(trace: Trace) -> Iterator[RequestLine]:
    for row in trace.table("requests").drop("output_margin", "slot").iter_rows(named=True):
        yield RequestLine(request=row.pop("request_id"), **row)


def _steps(trace: Trace) -> Iterator[LoggedStep]:
    rows, ops, prompts = _ByStep(_rows(trace)), _ByStep(_ops(trace)), _prompts(trace)
    columns = ("step", "kind", "start_ns", "end_ns", "graph_bucket")
    for step in trace.columns("steps", *columns).iter_rows(named=True):
        common = {**step, "ops": ops.take(step["step"]) or []}
        mine = rows.take(step["step"])
        if step["kind"] == "prefill":
            names = prompts.get(step["step"], [])
            if names:
                yield LoggedStep(
                    request=[name for name, _ in names], prompt_tokens=[count for _, count in names], **common
                )
        elif mine is not None:
            yield LoggedStep(**_of_rows(mine), **common)


class _ByStep(Generic[_T]):
    """What steps have, asked for step after step. parts: by step, the steps of each behind those of the one before."""

    def __init__(self, parts: Iterator[dict[int, _T]]) -> None:
        self._parts = parts
        self._held: dict[int, _T] = {}
        self._last = -1

    def take(self, step: int) -> _T | None:
        """Return what a step has, once; None: nothing."""
        while step > self._last and (part := next(self._parts, None)) is not None:
            self._held = part
            self._last = max(part)
        return self._held.pop(step, None)


def _rows(trace: Trace) -> Iterator[dict[int, pl.DataFrame]]:
    for rows in trace.stretches("rows"):
        yield {step: mine for (step,), mine in rows.partition_by("step", as_dict=True).items()}


def _of_rows(rows: pl.DataFrame) -> dict[str, Any]:
    known = {name: rows[column].to_list() for name, column in _PER_SEQUENCE.items()}
    return known | {name: rows[name].to_list() for name in _IF_ANY if rows[name].null_count() < rows.height}


def _ops(trace: Trace) -> Iterator[dict[int, list[tuple[Any, ...]]]]:
    columns = ("step", "op", "start_ns", "end_ns", "wait_start_ns", "wait_end_ns")
    for events in trace.stretches("events", *columns, "lane"):
        host = events.filter(pl.col("lane") == Lane.HOST.value).sort("start_ns", "end_ns", maintain_order=True)
        found: dict[int, list[tuple[Any, ...]]] = {}
        for step, *span in host.select(columns).iter_rows():
            found.setdefault(step, []).append(tuple(span))
        if found:
            yield found


def _prompts(trace: Trace) -> dict[int, list[tuple[str, int]]]:
    """Of each prefill step, the requests that got their first token in it."""
    prefills = trace.table("steps").filter(pl.col("kind") == "prefill").select("step", "start_ns", "end_ns")
    asked = trace.table("requests").select("request_id", "prompt_tokens", "first_token_ns").drop_nulls()
    found: dict[int, list[tuple[str, int]]] = {}
    pairs = asked.join_where(
        prefills, pl.col("first_token_ns") >= pl.col("start_ns"), pl.col("first_token_ns") <= pl.col("end_ns")
    )
    for step, name, count in pairs.select("step", "request_id", "prompt_tokens").sort("step", "request_id").iter_rows():
        found.setdefault(step, []).append((name, count))
    return found

"""A trace as torch.profiler would have written it: what `simtool import` and other readers of Kineto JSON take.

A host op is an annotation; inside it stand a launch call for each piece of its device work, which share its busy time
evenly (a recording does not time them), and a synchronise call for its wait. Copies to and from the host are memcpy
rows on streams of their own, kernels run on another. Times are the trace's own, in us with all their digits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from simtool.errors import TraceError
from simtool.files.writing import whole_file
from simtool.step.ops import Lane
from simtool.trace.exporters.perfetto import as_text
from simtool.trace.trace import Trace

_HOST = pl.col("lane") == Lane.HOST.value
_PROCESS, _THREAD, _DEVICE = 1, 1, 0
_STREAMS = {Lane.COMPUTE.value: 7, Lane.PREPARE.value: 13, Lane.COPY.value: 14}
_COPIES = {
    Lane.PREPARE.value: ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "cudaMemcpyAsync"),
    Lane.COPY.value: ("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", "cudaMemcpyAsync"),
}
_SYNC = "cudaStreamSynchronize"


def export_torch_profiler(trace: Trace, path: Path) -> int:
    """Write Kineto JSON, compressed when the name ends in .gz, and return how many events were written.

    Raises TraceError when the trace holds no event.
    """
    if not trace.height("events"):
        raise TraceError(f"{trace.path}: holds no event; there is nothing to export")
    device = {"id": _DEVICE, "name": trace.manifest.device_name}
    head = json.dumps({"schemaVersion": 1, "deviceProperties": [device], "displayTimeUnit": "ms"})[:-1]
    count = 0
    with whole_file(path) as raw, as_text(path, raw) as file:
        file.write(f'{head}, "traceEvents": [')
        for event in _events(trace):
            file.write(f"{',' if count else ''}\n{event}")
            count += 1
        file.write("\n]}\n")
    return count


def _events(trace: Trace) -> Iterator[str]:
    for step, start_ns, end_ns in trace.columns("steps", "step", "start_ns", "end_ns").iter_rows():
        yield _slice(f"ProfilerStep#{step}", "user_annotation", (start_ns, end_ns))
    # of an import, device work may lie in another step than what launched it
    parts = [trace.table("events")] if trace.manifest.origin == "imported" else trace.stretches("events")
    for events in parts:
        works: dict[int, list[dict[str, Any]]] = {}
        for work in events.filter(~_HOST).sort("start_ns", maintain_order=True).iter_rows(named=True):
            works.setdefault(work["flow"], []).append(work)
        for op in events.filter(_HOST).sort("start_ns", "end_ns", maintain_order=True).iter_rows(named=True):
            yield from _op(op, works.get(op["flow"], []))


def _op(op: dict[str, Any], works: list[dict[str, Any]]) -> Iterator[str]:
    yield _slice(op["op"], "user_annotation", (op["start_ns"], op["end_ns"]))
    busy_end_ns = op["end_ns"] if op["wait_start_ns"] is None else op["wait_start_ns"]
    for i, work in enumerate(works):
        correlation = op["flow"] * 8 + i + 1
        span = tuple(op["start_ns"] + (busy_end_ns - op["start_ns"]) * part // len(works) for part in (i, i + 1))
        yield from _launched(work, (span[0], span[1]), correlation)
    if op["wait_start_ns"] is not None:
        yield _slice(_SYNC, "cuda_runtime", (op["wait_start_ns"], op["wait_end_ns"]), args={"cbid": 131})


def _launched(work: dict[str, Any], span: tuple[int, int], correlation: int) -> Iterator[str]:
    category, name, call = _COPIES.get(work["lane"], ("kernel", work["op"], "cudaLaunchKernel"))
    yield _slice(call, "cuda_runtime", span, args={"correlation": correlation})
    stream = _STREAMS[work["lane"]]
    args = {"device": _DEVICE, "stream": stream, "correlation": correlation}
    moved = {"bytes": work["bytes"]} if work["bytes"] else {}
    yield _slice(name, category, (work["start_ns"], work["end_ns"]), (_DEVICE, stream), {**args, **moved})


def _slice(
    name: str,
    category: str,
    span: tuple[int, int],
    where: tuple[int, int] = (_PROCESS, _THREAD),
    args: dict[str, Any] | None = None,
) -> str:
    """One complete event as JSON; its times are written digit by digit, as a double cannot hold them."""
    start_ns, end_ns = span
    about = {"ph": "X", "cat": category, "name": name, "pid": where[0], "tid": where[1], "args": args or {}}
    return f'{json.dumps(about)[:-1]}, "ts": {_us(start_ns)}, "dur": {_us(end_ns - start_ns)}}}'


def _us(duration_ns: int) -> str:
    sign, whole = ("-" if duration_ns < 0 else ""), abs(duration_ns)
    return f"{sign}{whole // 1000}.{whole % 1000:03}"

"""A trace as Chrome trace JSON, for ui.perfetto.dev and chrome://tracing.

Steps and lanes are threads, work is complete slices ("X"), waits nest in the host op that waits, launches are flow
arrows, batch and validate rows are counters. Times are microseconds from the first event, exact to the nanosecond.
"""

from __future__ import annotations

import gzip
import heapq
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedWriter, TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

import polars as pl

from simtool.errors import TraceError
from simtool.files.writing import whole_file
from simtool.step.ops import Lane
from simtool.trace.trace import Trace
from simtool.units import NS_PER_US

_PID = 1
_STEPS_TID = 1
_LANE_TIDS = {lane.value: 10 * (i + 1) for i, lane in enumerate(Lane)}  # room for work that overlaps on a lane
_TRACKS_PER_LANE = 10
_CHUNK_EVENTS = 10_000
_READ = ("step", "op", "lane", "start_ns", "end_ns", "wait_start_ns", "wait_end_ns", "bytes", "flow")

Event = dict[str, Any]


def export_perfetto(trace: Trace, path: Path, *, force: bool = False) -> int:
    """Write the trace to `path` (compressed when it ends in .gz) and return how many trace events were written.

    Its folder is made where there is none. Raises TraceError when the file is there already (without `force`) or the
    trace has no event.
    """
    if path.is_file() and not force:
        raise TraceError(f"{path}: is there already; choose another name, or overwrite it with --force")
    if not trace.height("events") and not trace.height("steps"):
        raise TraceError(f"{trace.path}: has neither events nor steps; there is nothing to export")
    origin_ns = _origin_ns(trace)
    with whole_file(path) as raw, as_text(path, raw) as file:
        count = 0
        file.write(f'{{"displayTimeUnit": "ns", "otherData": {json.dumps(_about(trace, origin_ns))}, "traceEvents": [')
        for chunk in _chunks(trace_events(trace, origin_ns)):
            file.write(",\n" if count else "\n")
            file.write(",\n".join(json.dumps(event, separators=(",", ":")) for event in chunk))
            count += len(chunk)
        file.write("\n]}\n")
    return count


@contextmanager
def as_text(path: Path, raw: BufferedWriter) -> Iterator[TextIO]:
    """Give the file as text, compressed where its name says so; `raw` stays open."""
    packed = gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") if path.suffix == ".gz" else raw
    text = TextIOWrapper(packed, encoding="utf-8")
    yield text
    text.flush()
    text.detach()
    if packed is not raw:
        packed.close()


def trace_events(trace: Trace, origin_ns: int) -> Iterator[Event]:
    """Yield every trace event of a trace, times in us from origin_ns."""
    events = trace.columns("events", *_READ)
    tracks = events.with_columns(tid=pl.Series(_tracks(events), dtype=pl.Int64))
    yield from _names(trace, sorted(tracks["tid"].unique()))
    yield from _steps(trace.table("steps"), origin_ns)
    for event in tracks.iter_rows(named=True):
        yield from _work(event, origin_ns)
    yield from _arrows(tracks, origin_ns)


def _names(trace: Trace, tids: Iterable[int]) -> Iterator[Event]:
    manifest = trace.manifest
    names = {_STEPS_TID: "steps"}
    for lane, first in _LANE_TIDS.items():
        names |= {
            tid: lane if tid == first else f"{lane} (overlapping {tid - first})"
            for tid in tids
            if tid // 10 * 10 == first
        }
    yield _meta(
        "process_name", 0, name=f"{trace.path.name}: {manifest.origin}, {manifest.engine}, {manifest.device_name}"
    )
    for tid, name in names.items():
        yield _meta("thread_name", tid, name=name)
        yield _meta("thread_sort_index", tid, sort_index=tid)


def _steps(steps: pl.DataFrame, origin_ns: int) -> Iterator[Event]:
    for step in steps.iter_rows(named=True):
        facts = {name: step[name] for name in ("batch", "validate_rows", "pruned", "placement")}
        yield _slice(_STEPS_TID, f"{step['kind']} {step['step']}", (step["start_ns"], step["end_ns"]), origin_ns, facts)
        for counter in ("batch", "validate_rows"):
            at = {"ph": "C", "pid": _PID, "ts": _us(step["start_ns"] - origin_ns)}
            yield {"name": counter.replace("_", " "), **at, "args": {counter: step[counter]}}


def _work(event: Event, origin_ns: int) -> Iterator[Event]:
    facts = {name: event[name] for name in ("step", "flow", "bytes")}
    yield _slice(event["tid"], event["op"], (event["start_ns"], event["end_ns"]), origin_ns, facts)
    if event["wait_start_ns"] is not None:
        yield _slice(event["tid"], "wait", (event["wait_start_ns"], event["wait_end_ns"]), origin_ns, {})


def _arrows(tracks: pl.DataFrame, origin_ns: int) -> Iterator[Event]:
    """One arrow for each piece of device work, from the host op that launched it; every arrow has its own id."""
    is_host = pl.col("lane") == Lane.HOST.value
    host = tracks.filter(is_host).unique("flow", keep="any").select("flow", "tid", "start_ns")
    device = tracks.filter(~is_host).select("flow", "tid", "start_ns")
    pairs = host.join(device, on="flow", how="inner", suffix="_device").sort("start_ns", "start_ns_device")
    for i, pair in enumerate(pairs.iter_rows(named=True), start=1):
        common = {"name": "launch", "cat": "flow", "id": i, "pid": _PID}
        yield {**common, "ph": "s", "tid": pair["tid"], "ts": _us(pair["start_ns"] - origin_ns)}
        yield {
            **common,
            "ph": "f",
            "bp": "e",
            "tid": pair["tid_device"],
            "ts": _us(pair["start_ns_device"] - origin_ns),
        }


def _tracks(events: pl.DataFrame) -> list[int]:
    """A thread for each event: its lane's own, or a further one where it overlaps (imports only; ten at most)."""
    tids = [0] * events.height
    busy: dict[str, list[tuple[int, int]]] = {}
    order = events.with_row_index("at").sort("lane", "start_ns", "end_ns", "at")
    for at, lane, start_ns, end_ns in order.select("at", "lane", "start_ns", "end_ns").iter_rows():
        tracks = busy.setdefault(lane, [])
        track = len(tracks)
        if tracks and (tracks[0][0] <= start_ns or track == _TRACKS_PER_LANE):
            _, track = heapq.heappop(tracks)
        heapq.heappush(tracks, (end_ns, track))
        tids[at] = _LANE_TIDS[lane] + track
    return tids


def _slice(tid: int, name: str, span_ns: tuple[int, int], origin_ns: int, args: Event) -> Event:
    start_ns, end_ns = span_ns
    times = {"ts": _us(start_ns - origin_ns), "dur": _us(end_ns - start_ns)}
    return {"name": name, "ph": "X", "pid": _PID, "tid": tid, **times, "args": args}


def _meta(kind: str, tid: int, **args: object) -> Event:
    return {"name": kind, "ph": "M", "pid": _PID, "tid": tid, "args": args}


def _us(duration_ns: int) -> float:
    return duration_ns / NS_PER_US


def _origin_ns(trace: Trace) -> int:
    starts = [trace.columns(name, "start_ns")["start_ns"].min() for name in ("events", "steps")]
    return min(start for start in starts if isinstance(start, int))


def _about(trace: Trace, origin_ns: int) -> Event:
    m = trace.manifest
    return {"origin": m.origin, "engine": m.engine, "device": m.device_name, "clock": m.clock, "zero_at_ns": origin_ns}


def _chunks(events: Iterable[Event]) -> Iterator[list[Event]]:
    chunk: list[Event] = []
    for event in events:
        chunk.append(event)
        if len(chunk) == _CHUNK_EVENTS:
            yield chunk
            chunk = []
    if chunk:
        yield chunk

"""Kineto files made in code: each event as torch.profiler writes it, with times in us."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simtool.trace.importers.imported import Imported
from simtool.trace.importers.profile import ProfileOptions, import_profile
from simtool.trace.importers.to_events.mapping import Choices

BASE_NS = 1_700_000_000_000_000_000


def span(
    cat: str, name: str, ts: object, dur: object, pid: object = 40, tid: object = 41, **args: object
) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def call(name: str, ts: object, dur: object, correlation: object, **where: Any) -> dict[str, Any]:
    return span(where.pop("cat", "cuda_runtime"), name, ts, dur, correlation=correlation, **where)


def kernel(
    name: str, ts: object, dur: object, correlation: object, device: int = 0, stream: int = 7, **more: Any
) -> dict[str, Any]:
    pid = more.pop("pid", device)
    return span("kernel", name, ts, dur, pid, stream, device=device, stream=stream, correlation=correlation, **more)


def save(path: Path, events: list[Any], **header: object) -> Path:
    path.write_text(json.dumps({"baseTimeNanoseconds": BASE_NS, **header, "traceEvents": events}))
    return path


def read(tmp_path: Path, events: list[Any], **header: object) -> Imported:
    return import_profile(save(tmp_path / "t.json", events, **header))


def read_with(tmp_path: Path, choices: Choices, events: list[Any]) -> Imported:
    return import_profile(save(tmp_path / "t.json", events), ProfileOptions(choices))


def rows(imported: Imported, *columns: str) -> list[tuple[Any, ...]]:
    """Rows in order of time; times as us from the base."""
    frame = imported.frames["events"].sort("start_ns", "flow", "lane")
    wanted = columns or ("lane", "op", "start_ns", "end_ns", "flow")
    times = {name: (frame[name] - BASE_NS) // 1000 for name in wanted if name.endswith("_ns")}
    return list(zip(*(times.get(name, frame[name]) for name in wanted), strict=True))

"""Ascend profiles made in code: trace_view.json as torch_npu writes it, and its databases, times in us."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

BASE_US = 1_700_000_000_000_000
BASE_NS = BASE_US * 1000
PYTHON, CANN, NPU, HCCL = 11, 12, 13, 14


def stamp(at: float) -> str:
    return f"{BASE_US + Decimal(str(at)):.3f}"


def x(pid: int, tid: int, name: str, at: float, dur: float, **args: object) -> dict[str, Any]:
    return {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": stamp(at), "dur": dur, "args": args}


def launch(at: float, connection: int, tid: int = 5, name: str = "Node@launch", dur: float = 5) -> dict[str, Any]:
    return x(CANN, tid, name, at, dur, connection_id=connection)


def task(name: str, at: float, dur: float, connection: int, stream: int = 2, kind: str = "AI_CORE") -> dict[str, Any]:
    return x(NPU, stream, name, at, dur, connection_id=connection, **{"Task Type": kind})


def arrow(ident: str, begin: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    """The two ends of a HostToDevice arrow, from the start of one event to that of another."""
    common = {"name": f"HostToDevice{ident}", "cat": "HostToDevice", "id": ident}
    places = [{key: event[key] for key in ("pid", "tid", "ts")} for event in (begin, end)]
    return [{"ph": "s", **common, **places[0]}, {"ph": "f", "bp": "e", **common, **places[1]}]


def names(**processes: int) -> list[dict[str, Any]]:
    """Name processes; an underscore stands for a blank."""
    return [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name.replace("_", " ")}}
        for name, pid in processes.items()
    ]


USUAL = names(Python=PYTHON, CANN=CANN, Ascend_Hardware=NPU, HCCL=HCCL)


def thread(pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def save(folder: Path, events: list[Any], **texts: str) -> Path:
    """Write ASCEND_PROFILER_OUTPUT under the folder: trace_view.json and, by their names without suffix, CSV files."""
    output = folder / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    if events:
        (output / "trace_view.json").write_text(json.dumps(events))
    for name, text in texts.items():
        (output / f"{name}.csv").write_text(text, newline="")
    return folder


def save_database(path: Path, tables: dict[str, tuple[str, list[tuple[object, ...]]]]) -> Path:
    """Write a database; tables: name -> its columns, comma-separated, and its rows."""
    with closing(sqlite3.connect(path)) as connection:
        for name, (columns, entries) in tables.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
            marks = ", ".join("?" for _ in columns.split(","))
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", entries)
        connection.commit()
    return path

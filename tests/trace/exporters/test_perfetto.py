from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from simtool.errors import TraceError
from simtool.trace.exporters import perfetto
from simtool.trace.exporters.perfetto import export_perfetto
from simtool.trace.frames import make_frame
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace, write_trace
from tests.trace.small import columns_of, small_manifest, small_tables

Events = list[dict[str, Any]]


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    frames = {name: make_frame(TABLES[name], columns) for name, columns in small_tables().items()}
    return write_trace(tmp_path / "run", small_manifest(), frames)


def _exported(trace: Trace, path: Path) -> Events:
    count = export_perfetto(trace, path)
    events: Events = json.loads(path.read_text())["traceEvents"]
    assert len(events) == count
    return events


def _of(events: Events, ph: str) -> Events:
    return [event for event in events if event["ph"] == ph]


def _ns(us: float) -> int:
    return round(us * 1000)


def test_every_event_is_a_slice_on_its_lane(trace: Trace, tmp_path: Path) -> None:
    events = _exported(trace, tmp_path / "t.json")
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert sorted(threads.values()) == ["compute", "copy", "host", "steps"]
    slices = [e for e in _of(events, "X") if threads[e["tid"]] != "steps" and e["name"] != "wait"]
    got = sorted(
        (e["args"]["step"], e["name"], threads[e["tid"]], _ns(e["ts"]), _ns(e["ts"] + e["dur"])) for e in slices
    )
    assert got == sorted(trace.table("events").select("step", "op", "lane", "start_ns", "end_ns").iter_rows())


def test_steps_counters_and_waits(trace: Trace, tmp_path: Path) -> None:
    events = _exported(trace, tmp_path / "t.json")
    steps = [e for e in _of(events, "X") if e["tid"] == 1]
    assert [(e["name"], _ns(e["ts"]), e["args"]["batch"]) for e in steps] == [
        ("prefill 0", 0, 2),
        ("decode 1", 100, 2),
        ("decode 2", 200, 2),
        ("decode 3", 300, 2),
    ]
    rows = [e["args"]["validate_rows"] for e in _of(events, "C") if e["name"] == "validate rows"]
    assert rows == [9, 6, 4, 5]
    waits = [e for e in _of(events, "X") if e["name"] == "wait"]
    assert [(_ns(e["ts"]), _ns(e["dur"])) for e in waits] == [(30, 65), (130, 65), (230, 65), (330, 65)]


def test_arrows_run_from_each_launch_to_its_work(trace: Trace, tmp_path: Path) -> None:
    events = _exported(trace, tmp_path / "t.json")
    starts = {e["id"]: e for e in _of(events, "s")}
    ends = {e["id"]: e for e in _of(events, "f")}
    assert starts.keys() == ends.keys()
    assert len(ends) == 8
    at = {(e["tid"], e["ts"]): (e["name"], e["args"].get("flow")) for e in _of(events, "X") if e["name"] != "wait"}
    for i, start in starts.items():
        end = ends[i]
        assert at[start["tid"], start["ts"]][1] == at[end["tid"], end["ts"]][1]
        assert end["bp"] == "e"
        assert start["tid"] != end["tid"]


def test_times_stay_exact_far_from_zero(tmp_path: Path) -> None:
    start = 1_736_408_883_688_177_930
    names = "step op lane start_ns end_ns flow bytes"
    rows = [
        (0, "a", "compute", start, start + 7, 1, 0),
        (0, "b", "compute", start + 3_600_000_000_123, start + 3_600_000_000_124, 2, 0),
    ]
    frames = {"events": make_frame(TABLES["events"], columns_of(names, rows))}
    trace = write_trace(tmp_path / "run", small_manifest(), frames)
    first, second = _of(_exported(trace, tmp_path / "t.json"), "X")
    assert (_ns(first["ts"]), _ns(first["dur"])) == (0, 7)
    assert (_ns(second["ts"]), _ns(second["dur"])) == (3_600_000_000_123, 1)


def test_overlapping_work_of_a_lane_gets_tracks_of_its_own(tmp_path: Path) -> None:
    spans = [(0, 10), (2, 6), (4, 8), (6, 9), (10, 12)]
    rows = [(0, f"k{i}", "compute", start, end, i, 0) for i, (start, end) in enumerate(spans)]
    frames = {"events": make_frame(TABLES["events"], columns_of("step op lane start_ns end_ns flow bytes", rows))}
    trace = write_trace(tmp_path / "run", small_manifest(origin="imported", placement=None), frames)
    slices = _of(_exported(trace, tmp_path / "t.json"), "X")
    for a in slices:
        for b in slices:
            if a is not b and a["tid"] == b["tid"]:
                assert _ns(a["ts"] + a["dur"]) <= _ns(b["ts"]) or _ns(b["ts"] + b["dur"]) <= _ns(a["ts"])
    assert len({e["tid"] for e in slices}) == 3


def test_chunks_join_into_one_document(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _exported(trace, tmp_path / "whole.json")
    monkeypatch.setattr(perfetto, "_CHUNK_EVENTS", 3)
    assert _exported(trace, tmp_path / "chunked.json") == whole


def test_gz_force_and_nothing_to_export(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    export_perfetto(trace, path)
    assert json.loads(gzip.decompress(path.read_bytes()))["otherData"]["origin"] == "live"
    with pytest.raises(TraceError, match="--force"):
        export_perfetto(trace, path)
    export_perfetto(trace, path, force=True)
    with pytest.raises(TraceError, match="nothing to export"):
        export_perfetto(write_trace(tmp_path / "empty", small_manifest(), {}), tmp_path / "e.json")


def test_a_missing_folder_is_made_and_half_a_file_is_not_left(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _exported(trace, tmp_path / "new" / "deep" / "t.json")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device", "a name of no interest")

    monkeypatch.setattr(perfetto, "_chunks", fail)
    with pytest.raises(OSError, match="No space left") as caught:
        export_perfetto(trace, tmp_path / "full" / "t.json")
    assert caught.value.filename == str(tmp_path / "full" / "t.json")
    assert list((tmp_path / "full").iterdir()) == []

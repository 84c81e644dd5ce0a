from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simtool.errors import TraceError
from simtool.step.ops import Lane
from simtool.trace.checks.check import check_trace
from simtool.trace.importers.imported import Imported
from simtool.trace.importers.profile import ProfileOptions, import_profile
from simtool.trace.importers.to_events.mapping import Choices
from simtool.trace.trace import open_trace

_SAMPLES = Path(__file__).parents[4] / "shared" / "samples"


def _x(cat: str, name: str, tid: int, ts: object, dur: object, **args: object) -> dict[str, Any]:
    pid = 0 if cat.startswith(("kernel", "gpu_")) else 77
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def _work(
    cat: str, name: str, stream: int, ts: object, dur: object, correlation: int, **args: object
) -> dict[str, Any]:
    return _x(cat, name, stream, ts, dur, device=0, stream=stream, correlation=correlation, **args)


#: Two steps: upload, graph launch of two kernels, a download on a stream of its own that the host waits for.
_EVENTS = [
    _x("user_annotation", "ProfilerStep#7", 1, 0, 100),
    _x("user_annotation", "ProfilerStep#8", 1, 100, 100),
    _x("cpu_op", "aten::mm", 1, 0, 90),
    _x("cuda_runtime", "cudaMemcpyAsync", 1, 1, 2.5, correlation=1),
    _work("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 5, 4, 2, 1, bytes=640),
    _x("cuda_runtime", "cudaGraphLaunch", 1, "10", "20", correlation=2),
    _x("cuda_driver", "cuLaunchKernel", 1, 12, 3, correlation=9),
    _work("kernel", "gemm", 7, 12, 30, 2),
    _work("kernel", "softmax", 7, 42, 8.25, 9),
    _x("cuda_runtime", "cudaMemcpyAsync", 1, 101, 2, correlation=3),
    _work("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 6, 104, 3, 3, bytes=32),
    _x("cuda_runtime", "cudaStreamSynchronize", 1, 103, 7, correlation=4),
    _x("cuda_runtime", "cudaEventQuery", 2, 50, 1, correlation=5),
    {"ph": "s", "id": 1, "cat": "ac2g", "ts": 1, "pid": 77, "tid": 1},
    {},
]


def _write(path: Path, events: list[Any], **header: object) -> Path:
    path.write_bytes(gzip.compress(json.dumps({**header, "traceEvents": events}).encode()))
    return path


def _on(lanes: dict[str, Lane]) -> ProfileOptions:
    return ProfileOptions(Choices(lanes=lanes))


@pytest.fixture
def imported(tmp_path: Path) -> Imported:
    properties = [{"id": 0, "name": "Some GPU"}]
    path = _write(tmp_path / "t.json.gz", _EVENTS, baseTimeNanoseconds=10**18, deviceProperties=properties)
    return import_profile(path)


def _rows(imported: Imported) -> list[tuple[Any, ...]]:
    frame = imported.frames["events"].select("lane", "op", "start_ns", "end_ns", "flow", "step", "bytes")
    return sorted((row[0], row[1], row[2] % 10**18, row[3] % 10**18, *row[4:]) for row in frame.iter_rows())


def test_calls_and_work_are_mapped_and_linked(imported: Imported) -> None:
    assert _rows(imported) == [
        ("compute", "gemm", 12_000, 42_000, 2, 7, 0),
        ("compute", "softmax", 42_000, 50_250, 2, 7, 0),
        ("copy", "Memcpy DtoH (Device -> Pinned)", 104_000, 107_000, 3, 8, 32),
        ("host", "cudaGraphLaunch", 10_000, 30_000, 2, 7, 0),
        ("host", "cudaMemcpyAsync", 1_000, 3_500, 1, 7, 0),
        ("host", "cudaMemcpyAsync", 101_000, 103_000, 3, 8, 0),
        ("host", "cudaStreamSynchronize", 103_000, 110_000, 4, 8, 0),
        ("prepare", "Memcpy HtoD (Pinned -> Device)", 4_000, 6_000, 1, 7, 640),
    ]
    waits = imported.frames["events"].filter(imported.frames["events"]["wait_start_ns"].is_not_null())
    assert waits["op"].to_list() == ["cudaStreamSynchronize"]


def test_the_manifest_says_what_was_done(imported: Imported) -> None:
    manifest = imported.manifest
    assert (manifest.origin, manifest.device_name, manifest.placement) == ("imported", "Some GPU", None)
    assert manifest.clock == "unix time"
    assert manifest.details["host_thread"] == "pid 77 tid 1"
    assert manifest.details["lanes"] == {
        "device 0 stream 5": {"lane": "prepare", "upload": 1},
        "device 0 stream 6": {"lane": "copy", "download": 1},
        "device 0 stream 7": {"lane": "compute", "kernel": 2},
    }
    assert manifest.details["dropped"] == {
        "category cpu_op": 1,
        "phase s": 1,
        "empty events": 1,
        "calls on other threads that neither launch nor wait": 1,
        "host calls inside another call": 1,
    }
    assert manifest.details["rejected"] == {}
    assert manifest.warnings == []


def test_sizes_written_as_texts_are_read_and_others_are_told(tmp_path: Path) -> None:
    """ROCm writes a host copy's size as a text of digits beside the device's number."""
    sizes = ["640", 32, -1, "much", 2**70]
    copies = [_work("gpu_memcpy", "Memcpy HtoD", 5, 10 * i, 2, i, bytes=size) for i, size in enumerate(sizes)]
    imported = import_profile(_write(tmp_path / "t.json", copies))
    assert imported.frames["events"].sort("start_ns")["bytes"].to_list() == [640, 32, 0, 0, 0]
    told = {"bytes is nothing that it could be; read as not said": {"count": 3, "first": "-1"}}
    assert imported.manifest.details["rejected"] == told


def test_it_writes_a_trace_that_passes_its_checks(imported: Imported, tmp_path: Path) -> None:
    imported.write(tmp_path / "bundle")
    assert check_trace(open_trace(tmp_path / "bundle")) == []


def test_lanes_can_be_chosen_and_overlaps_are_told(tmp_path: Path) -> None:
    events = [_work("kernel", "a", 7, 0, 10, 1), _work("kernel", "b", 8, 5, 10, 2), _work("kernel", "c", 8, 16, 1, 3)]
    path = _write(tmp_path / "t.json.gz", events)
    both = import_profile(path)
    assert both.manifest.details["overlapping_events"] == {"compute": 1}
    assert both.manifest.warnings == ["1 events on lane compute overlap the one before (see details.lanes)"]
    assert both.manifest.details["device_work_without_launch"] == 3
    assert both.frames["events"]["flow"].to_list() == [1, 2, 3]
    apart = import_profile(path, _on({"device 0 stream 8": Lane.PREPARE}))
    assert apart.manifest.details["overlapping_events"] == {}
    assert apart.frames["events"].filter(apart.frames["events"]["lane"] == "prepare").height == 2
    with pytest.raises(TraceError, match=r"no stream 'stream 8'.*'device 0 stream 7', 'device 0 stream 8'"):
        import_profile(path, _on({"stream 8": Lane.PREPARE}))


def test_only_the_busiest_device_is_kept(tmp_path: Path) -> None:
    events = [_x("kernel", f"k{i}", 7, i, 1, device=int(i > 0), stream=7) for i in range(4)]
    imported = import_profile(_write(tmp_path / "t.json.gz", events))
    assert imported.manifest.details["device"] == "device 1"
    assert imported.manifest.details["dropped"] == {"work on device 0": 1}


def test_bad_times_are_rejected_by_name(tmp_path: Path) -> None:
    events = [*_EVENTS, _work("kernel", "late", 7, "later", 1, 10), _work("kernel", "long", 7, 1, None, 11)]
    imported = import_profile(_write(tmp_path / "t.json.gz", events))
    assert imported.manifest.details["rejected"] == {
        "ts and dur are no span of time": {"count": 2, "first": "name late, ts later, dur 1"}
    }
    assert imported.manifest.warnings[0].startswith("2 rejected: ts and dur are no span of time")


def test_missing_ids_leave_work_unlinked_not_lost(tmp_path: Path) -> None:
    bare = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "pid": 3, "tid": 9}
    imported = import_profile(_write(tmp_path / "t.json.gz", [bare, {**bare, "args": "none", "ts": 2}]))
    assert imported.manifest.details["lanes"] == {"device 3 stream 9": {"lane": "compute", "kernel": 2}}
    assert imported.manifest.details["device_work_without_launch"] == 2


def test_a_trace_without_device_activity_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="none a kernel, copy or runtime call"):
        import_profile(_write(tmp_path / "t.json.gz", [_x("cpu_op", "aten::mm", 1, 0, 90)]))


_JSON = st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats() | st.text(max_size=4) | st.lists(st.none())
_CATEGORIES = ["kernel", "gpu_memcpy", "cuda_runtime", "cuda_driver", "user_annotation", "cpu_op"]
_NAMES = ["Memcpy DtoH (Device -> Pinned)", "cudaStreamSynchronize", "ProfilerStep#3", "ProfilerStep#99999999999"]
_ANY_EVENT = st.fixed_dictionaries(
    {},
    optional={
        "ph": st.just("X") | _JSON,
        "cat": st.sampled_from(_CATEGORIES) | _JSON,
        "name": st.sampled_from(_NAMES) | _JSON,
        "ts": st.integers(0, 50) | _JSON,
        "dur": st.integers(0, 50) | _JSON,
        "tid": st.integers(0, 2) | _JSON,
        "args": st.dictionaries(st.sampled_from(["device", "stream", "correlation", "bytes"]), _JSON) | _JSON,
    },
)


@given(st.lists(_ANY_EVENT | _JSON, max_size=12))
@settings(max_examples=60, deadline=None)
def test_whatever_the_events_hold_each_is_kept_or_counted(events: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        path.write_text(json.dumps([_x("kernel", "k", 7, 0, 1), *events]))
        imported = import_profile(path)
    details: dict[str, Any] = imported.manifest.details
    rejected = sum(
        entry["count"]
        for reason, entry in details["rejected"].items()
        if not reason.endswith("read as not said")  # a part of an event that is kept or counted besides
    )
    kept = imported.frames["events"].height + details["steps"].get("marks", 0)
    assert kept + sum(details["dropped"].values()) + rejected == 1 + len(events)


@pytest.mark.skipif(not _SAMPLES.is_dir(), reason="the public sample traces are not beside the repository")
@pytest.mark.parametrize(
    ("folder", "streams", "work"),
    [
        ("kineto_hta_alexnet", 2, 98),
        ("kineto_hta_cuda_event_sync", 1, 5),
        ("kineto_hta_cuda_event_sync_multi_stream", 3, 6),
        ("kineto_tracelens_sglang_decode", 2, 558),
    ],
)
def test_real_samples(folder: str, streams: int, work: int, tmp_path: Path) -> None:
    (path,) = (_SAMPLES / folder).glob("*.json.gz")
    imported = import_profile(path)
    events = imported.frames["events"]
    assert len(imported.manifest.details["lanes"]) == streams  # type: ignore[arg-type]
    assert events.filter(events["lane"] != "host").height == work
    assert imported.manifest.details["device_work_without_launch"] == 0
    assert imported.manifest.details["rejected"] == {}
    findings = check_trace(imported.write(tmp_path / "bundle"))
    assert {finding.table for finding in findings} <= {"manifest"}

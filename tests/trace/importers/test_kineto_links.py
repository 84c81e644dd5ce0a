"""Which call launched which work, and what a call waits for, in Kineto traces of every maker."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.trace.importers.kineto_file import call, kernel, read, rows, span


def test_correlation_0_links_nothing(tmp_path: Path) -> None:
    imported = read(
        tmp_path,
        [
            call("hipGetDeviceCount", 5, 2, 0),
            call("hipModuleLaunchKernel", 10, 4, 11),
            kernel("ncclDevKernel_AllReduce", 16, 30, 0),
            kernel("gemm", 50, 6, 11),
        ],
    )
    assert imported.manifest.details["device_work_without_launch"] == 1
    assert imported.manifest.device == "rocm"
    assert rows(imported, "op", "flow") == [
        ("hipGetDeviceCount", 1),
        ("hipModuleLaunchKernel", 2),
        ("ncclDevKernel_AllReduce", 3),
        ("gemm", 2),
    ]


@pytest.mark.parametrize(
    ("category", "name", "device"),
    [
        ("cuda_runtime", "cudaLaunchKernel", "cuda"),
        ("cuda_runtime", "hipLaunchKernel", "rocm"),
        ("hip_runtime", "hipLaunchKernel", "rocm"),
        ("xpu_runtime", "urEnqueueKernelLaunch", "xpu"),
        ("mtia_runtime", "runFunction", "mtia"),
    ],
)
def test_devices_go_by_their_own_names(tmp_path: Path, category: str, name: str, device: str) -> None:
    imported = read(tmp_path, [call(name, 1, 2, 3, cat=category), kernel("k", 5, 1, 3)])
    assert imported.manifest.device == device
    assert imported.manifest.details["device_work_without_launch"] == 0


def test_equal_thread_ids_and_correlations_of_two_processes_are_kept_apart(tmp_path: Path) -> None:
    imported = read(
        tmp_path,
        [
            call("cudaLaunchKernel", 10, 2, 1, pid=70, tid=1),
            call("cudaLaunchKernel", 11, 2, 1, pid=80, tid=1),
            kernel("a", 14, 5, 1, device=0),
            kernel("b", 400, 5, 1, device=1),
            call("cudaLaunchKernel", 30, 2, 2, pid=70, tid=1),
            kernel("c", 34, 5, 2, device=0),
        ],
    )
    details = imported.manifest.details
    assert (details["host_process"], details["host_thread"]) == ("pid 70", "pid 70 tid 1")
    assert details["dropped"] == {"work on device 1": 1, "host calls of other processes": 1}
    assert rows(imported, "op", "start_ns", "flow")[:2] == [("cudaLaunchKernel", 10, 1), ("a", 14, 1)]


def test_ranks_that_all_call_their_device_0_are_kept_apart(tmp_path: Path) -> None:
    events = []
    for rank, late in (("[TP00] 9", 0), ("[TP01] 9", 500)):
        events.append(call("cudaLaunchKernel", 10 + late, 2, 1, pid=f"{rank}1", tid=1))
        events.append(kernel("k", 14 + late, 5, 1, device=0, pid=rank))
    events.append(kernel("k", 30, 5, None, device=0, pid="[TP00] 9"))
    imported = read(tmp_path, events)
    assert imported.manifest.details["device"] == "device 0 of pid [TP00] 9"
    assert imported.manifest.details["host_process"] == "pid [TP00] 91"
    assert imported.manifest.details["dropped"] == {
        "work on device 0 of pid [TP01] 9": 1,
        "host calls of other processes": 1,
    }


def test_launches_and_waits_of_every_thread_are_kept(tmp_path: Path) -> None:
    imported = read(
        tmp_path,
        [
            call("cudaLaunchKernel", 10, 2, 1, tid=1),
            kernel("forward", 14, 5, 1),
            call("cudaLaunchKernel", 20, 2, 2, tid=2),
            call("cudaLaunchKernel", 23, 2, 3, tid=2),
            call("cudaEventQuery", 24, 1, 9, tid=3),
            kernel("backward", 25, 5, 2),
            kernel("backward", 30, 5, 3),
            call("cudaDeviceSynchronize", 13, 25, 4, tid=1),
        ],
    )
    details = imported.manifest.details
    assert details["device_work_without_launch"] == 0
    assert details["host_thread"] == "pid 40 tid 2"
    assert details["host_threads"] == {
        "pid 40 tid 1": {"calls": 2, "launched": 1, "waits": 1},
        "pid 40 tid 2": {"calls": 2, "launched": 2, "waits": 0},
    }
    assert details["dropped"] == {"calls on other threads that neither launch nor wait": 1}
    waits = imported.frames["events"].filter(pl.col("wait_end_ns").is_not_null())
    assert waits.select("op", "track").rows() == [("cudaDeviceSynchronize", "pid 40 tid 1")]


def test_an_event_wait_waits_for_its_own_stream(tmp_path: Path) -> None:
    """Stream 8 still runs when the wait for stream 7's event returns."""
    imported = read(
        tmp_path,
        [
            call("cudaLaunchKernel", 10, 2, 1),
            call("cudaEventRecord", 13, 1, 2),
            call("cudaLaunchKernel", 15, 2, 3),
            call("cudaLaunchKernel", 18, 2, 4),
            call("cudaEventSynchronize", 21, 30, 5),
            kernel("short", 14, 35, 1, stream=7),
            kernel("later", 60, 5, 3, stream=7),
            kernel("long", 19, 200, 4, stream=8),
            span("cuda_sync", "Event Sync", 21, 30, 0, 7, correlation=5, device=0, wait_on_stream=7,
                 wait_on_cuda_event_record_corr_id=2),
        ],
    )  # fmt: skip
    events = imported.frames["events"]
    wait = events.filter(pl.col("op") == "cudaEventSynchronize").row(0, named=True)
    short = events.filter(pl.col("op") == "short").row(0, named=True)
    assert wait["waits_for"] == short["flow"]
    assert "sync" in "".join(imported.manifest.details["dropped"])  # type: ignore[arg-type]


def test_sync_rows_are_no_device_work(tmp_path: Path) -> None:
    imported = read(
        tmp_path,
        [
            call("cudaLaunchKernel", 10, 2, 1),
            kernel("a", 14, 100, 1),
            call("cudaStreamSynchronize", 20, 95, 2),
            span("cuda_sync", "Stream Sync", 21, 93, 0, 7, stream=7, device=0, correlation=2),
        ],
    )
    assert [row[1] for row in rows(imported)] == ["cudaLaunchKernel", "a", "cudaStreamSynchronize"]
    assert imported.manifest.warnings == []


@pytest.mark.parametrize(
    "name", ["hipMemcpyWithStream", "cudaMemcpy", "hipMemcpyDtoH", "cuMemcpyDtoH_v2", "urQueueFinish"]
)
def test_calls_that_return_with_the_result_are_waits(tmp_path: Path, name: str) -> None:
    imported = read(tmp_path, [call(name, 5, 30, 1), kernel("k", 8, 20, 1)])
    assert rows(imported, "op", "wait_start_ns", "wait_end_ns")[0] == (name, 5, 35)


@pytest.mark.parametrize("name", ["cudaMemcpyAsync", "cudaStreamWaitEvent", "hipLaunchKernel", "urEnqueueEventsWait"])
def test_calls_that_return_at_once_are_not(tmp_path: Path, name: str) -> None:
    imported = read(tmp_path, [call(name, 5, 30, 1), kernel("k", 8, 20, 1)])
    assert rows(imported, "op", "wait_start_ns")[0] == (name, None)


def test_a_wait_inside_another_call_is_the_outer_calls_wait(tmp_path: Path) -> None:
    imported = read(
        tmp_path, [call("hipMemcpyAsync", 5, 30, 1), call("hipStreamSynchronize", 10, 20, 2), kernel("k", 8, 20, 1)]
    )
    assert rows(imported, "op", "wait_start_ns", "wait_end_ns")[0] == ("hipMemcpyAsync", 10, 30)


def test_work_is_of_its_launchs_step(tmp_path: Path) -> None:
    imported = read(
        tmp_path,
        [
            span("user_annotation", "ProfilerStep#4", 0, 20),
            span("user_annotation", "ProfilerStep#5", 20, 20),
            call("cudaLaunchKernel", 15, 2, 1),
            kernel("late", 30, 40, 1),
            kernel("unknown", 25, 2, 0, stream=8),
        ],
    )
    assert rows(imported, "op", "step") == [("cudaLaunchKernel", 4), ("unknown", 5), ("late", 4)]


def test_old_categories(tmp_path: Path) -> None:
    imported = read(
        tmp_path,
        [
            span("Operator", "ProfilerStep#2", 0, 100),
            span("Operator", "aten::mm", 1, 9),
            span("Runtime", "cudaLaunchKernel", 3, 2, correlation=1),
            span("Kernel", "gemm", 8, 4, 0, "stream 7", device=0, stream=7, correlation=1),
        ],
    )
    assert rows(imported, "op", "step") == [("cudaLaunchKernel", 2), ("gemm", 2)]
    assert imported.manifest.details["dropped"] == {"category Operator": 1}


def test_work_of_a_dropped_device_is_told_at_its_launch(tmp_path: Path) -> None:
    events = [call("cudaLaunchKernel", 10 * i, 2, i) for i in (1, 2, 3)]
    events += [kernel("k", 10 * i + 4, 2, i, device=int(i > 1)) for i in (1, 2, 3)]
    details = read(tmp_path, events).manifest.details
    assert (details["device"], details["launches_for_other_devices"]) == ("device 1", 1)
    assert details["dropped"] == {"work on device 0": 1}


def test_work_before_its_launch_is_a_finding(tmp_path: Path) -> None:
    events = [call("cudaLaunchKernel", 100, 2, 1), kernel("k", 60, 5, 1), call("cudaLaunchKernel", 200, 2, 2)]
    imported = read(tmp_path, [*events, kernel("k", 170, 5, 2)])
    assert imported.manifest.details["launch_delay"] == {
        "launches": 2,
        "work_before_launch": 2,
        "clocks_differ_by_at_least_ns": 40_000,
        "least_ns": -40_000,
        "median_ns": -35_000,
        "spread_p5_p95_ns": 10_000,
    }
    assert imported.manifest.warnings[0].startswith("2 of 2 launches have work that began before them, by up to 40 us")

"""The critical path of profiles: work that outlives the host, several threads and streams, an engine's steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from simtool.analysis.busy import device_busy
from simtool.analysis.critical_path.critical_path import CriticalPath, critical_path
from simtool.analysis.critical_path.spans import typical_steps
from simtool.trace.trace import Trace
from tests.trace.importers.kineto_file import call, kernel, read, span


def _trace(tmp_path: Path, events: list[Any]) -> Trace:
    return read(tmp_path, events).write(tmp_path / "trace")


def _path(trace: Trace) -> CriticalPath:
    return critical_path(typical_steps(trace), trace.table("events"), {})


def _parts_us(path: CriticalPath) -> dict[str, int]:
    length_us = (pl.col("end_ns") - pl.col("start_ns")).sum() // 1000
    return dict(path.segments.group_by("part").agg(length_us).rows())


def _idle_us(trace: Trace) -> list[int]:
    steps = typical_steps(trace)
    busy = device_busy(trace.table("events")).within(steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy())
    return [int(x) // 1000 for x in (steps["end_ns"] - steps["start_ns"]).to_numpy() - busy]


def test_work_that_outlives_the_host_is_on_the_path(tmp_path: Path) -> None:
    """One graph launch of 20 us, then four kernels of 50 us: the host does nothing more."""
    works = [kernel(f"k{i}", 130 + 50 * i, 50, 9) for i in range(4)]
    trace = _trace(
        tmp_path, [span("user_annotation", "ProfilerStep#3", 90, 60), call("cudaGraphLaunch", 100, 20, 9), *works]
    )
    path = _path(trace)
    assert _parts_us(path) == {"host": 20, "launch": 10, "device": 200}
    assert _idle_us(trace) == [30]
    on_path = path.ops.filter(pl.col("lane") == "compute").sort("op")
    assert on_path.select("op", pl.col("on_path_ns") // 1000).rows() == [("k0", 60), ("k1", 50), ("k2", 50), ("k3", 50)]
    assert on_path["slack_ns"].to_list() == [0, 0, 0, 0]


def test_decode_steps_of_an_engine_are_whole_periods(tmp_path: Path) -> None:
    events = []
    for i in range(3):
        events.append(span("user_annotation", "execute_context_0(0)_generation_4(20)", 500 * i, 100))
        events.append(call("cudaGraphLaunch", 500 * i + 10, 15, i + 1))
        events.append(kernel("decode", 500 * i + 40, 350, i + 1))
    trace = _trace(tmp_path, events)
    steps = trace.table("steps")
    assert steps.select("kind", "batch", "validate_rows").rows() == [("decode", 4, 20)] * 3
    assert (steps["end_ns"] - steps["start_ns"]).to_list() == [500_000] * 3
    assert _idle_us(trace) == [150, 150, 150]
    assert _parts_us(_path(trace))["device"] == 3 * 350


def test_a_wait_for_one_stream_is_bound_by_that_stream(tmp_path: Path) -> None:
    """Stream 8 is still busy when the wait for stream 7 returns at 115 us; then the host launches once more."""
    trace = _trace(
        tmp_path,
        [
            call("cudaLaunchKernel", 0, 5, 1),
            call("cudaLaunchKernel", 5, 5, 2),
            kernel("mine", 10, 100, 1, stream=7),
            kernel("other", 12, 900, 2, stream=8),
            call("cudaStreamSynchronize", 10, 105, 3),
            span("cuda_sync", "Stream Sync", 10, 105, 0, 7, stream=7, device=0, correlation=3),
            call("cudaStreamSynchronize", 115, 2000, 4),
        ],
    )
    waits = trace.table("events").filter(pl.col("wait_end_ns").is_not_null())
    assert waits["waits_for"].to_list() == [1, None]
    ops = {row["op"]: row["on_path_ns"] for row in _path(trace).ops.iter_rows(named=True)}
    assert ops["mine"] == 0
    assert ops["other"] // 1000 == 902


def test_a_stream_that_waits_for_another_stream_is_bound_by_it(tmp_path: Path) -> None:
    """Communication on stream 9 ends at 300 us, and the next kernel of stream 7 begins there, launched long ago."""
    trace = _trace(
        tmp_path,
        [
            *(call("cudaLaunchKernel", 5 * i, 4, i + 1) for i in range(3)),
            kernel("before", 10, 40, 1, stream=7),
            kernel("ncclAllReduce", 52, 248, 2, stream=9),
            kernel("after", 302, 50, 3, stream=7),
        ],
    )
    path = _path(trace)
    assert _parts_us(path) == {"host": 4, "launch": 6, "device": 40 + 248 + 50, "gap": 4}
    assert _idle_us(trace) == [14]


@pytest.mark.parametrize("first", [1, 2])
def test_the_threads_of_a_host_run_beside_each_other(tmp_path: Path, first: int) -> None:
    """A dispatch thread launches; the main thread waits from the start. No call waits for the other thread's."""
    trace = _trace(
        tmp_path,
        [
            call("cudaDeviceSynchronize", 8, 232, 9, tid=3 - first),
            call("cudaLaunchKernel", 0, 5, 1, tid=first),
            call("cudaLaunchKernel", 20, 5, 2, tid=first),
            kernel("a", 15, 100, 1),
            kernel("b", 115, 115, 2),
        ],
    )
    assert _parts_us(_path(trace)) == {"host": 5, "launch": 10, "device": 215, "wake": 10}

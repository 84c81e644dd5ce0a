"""Ascend profiles of every level, layout and file."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from simtool.errors import TraceError
from simtool.trace.importers.detect import import_path
from simtool.trace.importers.imported import Imported
from simtool.trace.importers.profile import ProfileOptions, import_profile
from simtool.trace.importers.to_events.mapping import Choices
from simtool.trace.importers.to_events.rules import load_rules
from tests.trace.importers.ascend_files import (
    BASE_NS,
    CANN,
    HCCL,
    NPU,
    PYTHON,
    USUAL,
    arrow,
    launch,
    names,
    save,
    save_database,
    stamp,
    task,
    thread,
    x,
)  # fmt: skip

_MARK = x(PYTHON, 1, "ProfilerStep#9", 0, 1000)
_TWO = [launch(10, 1), task("MatMul", 30, 100, 1), launch(20, 2), task("Add", 140, 10, 2)]


def _rows(imported: Imported, *columns: str) -> list[tuple[Any, ...]]:
    frame = imported.frames["events"].sort("start_ns", "flow", "lane")
    times = {name: (frame[name] - BASE_NS) // 1000 for name in columns if name.endswith("_ns")}
    return list(zip(*(times.get(name, frame[name]) for name in columns), strict=True))


_WHOLE = [("Node@launch", 10, 1), ("Node@launch", 20, 2), ("MatMul", 30, 1), ("Add", 140, 2)]


def test_level0_has_no_stream_and_is_read(tmp_path: Path) -> None:
    table = f"Step Id,Name,Type,Start Time(us),Duration(us)\n9,MatMul,M,{stamp(30)}\t,100\n9,Add,A,{stamp(140)}\t,10\n"
    imported = import_path(save(tmp_path / "p", [*USUAL, _MARK, *_TWO], kernel_details=table))
    assert _rows(imported, "op", "start_ns", "flow") == _WHOLE
    assert set(imported.frames["events"]["step"]) == {9}
    assert imported.manifest.details["kernel_details"] == {"kernels": 2, "found_in_timeline": 2, "streams_named": False}
    alone = import_path(save(tmp_path / "alone", [], kernel_details=table))
    assert _rows(alone, "op", "step") == [("MatMul", 9), ("Add", 9)]


@pytest.mark.parametrize("name", ["trace_view.json", "renamed.json"])
def test_a_timeline_as_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(json.dumps([*USUAL, _MARK, *_TWO]))
    imported = import_path(tmp_path / name)
    assert imported.manifest.engine == "torch_npu profiler"
    assert _rows(imported, "op", "start_ns", "flow") == _WHOLE


@pytest.mark.parametrize(
    "header",
    [
        "Step Id,Name,Type,Start Time(us),Duration(us),Stream ID",
        "Device_id,Op Name,Type,Task Start Time(us),Task Duration(us),Stream ID",
    ],
)
def test_a_table_as_a_file(tmp_path: Path, header: str) -> None:
    (tmp_path / "kernels.csv").write_text(f"{header}\n3,MatMul,M,{stamp(30)},100,2\n")
    imported = import_path(tmp_path / "kernels.csv")
    assert _rows(imported, "op", "start_ns", "end_ns") == [("MatMul", 30, 130)]


def test_an_empty_table_costs_the_comparison_only(tmp_path: Path) -> None:
    imported = import_path(save(tmp_path / "p", [*USUAL, _MARK, *_TWO], kernel_details=""))
    assert _rows(imported, "op", "start_ns", "flow") == _WHOLE
    assert imported.manifest.warnings == ["kernel_details.csv is empty, so it was not compared with the timeline"]


def test_arrows_link_where_ids_differ(tmp_path: Path) -> None:
    """Ids of the two sides differ, and one of the device's equals another launch's: the arrow counts."""
    first, second = launch(10, 500), launch(20, 8)
    works = task("MatMul", 30, 100, 8), task("Add", 140, 10, 9)
    events = [*USUAL, first, second, *works, *arrow("34359738367", first, works[0]), *arrow("7", second, works[1])]
    imported = import_path(save(tmp_path / "p", events))
    assert _rows(imported, "op", "start_ns", "flow") == _WHOLE
    assert imported.manifest.details["device_work_without_launch"] == 0


def test_an_arrow_may_begin_inside_its_call(tmp_path: Path) -> None:
    call, work = launch(10, 500, dur=8), task("MatMul", 30, 100, 77)
    events = [*USUAL, call, work, *arrow("3", {**call, "ts": stamp(14)}, work)]
    assert _rows(import_path(save(tmp_path / "p", events)), "op", "flow") == [("Node@launch", 1), ("MatMul", 1)]


def test_old_process_names(tmp_path: Path) -> None:
    events = [*names(Python=PYTHON, AscendCL=CANN, Runtime=15, Task_Scheduler=NPU), *_TWO]
    events.append(x(15, 5, "StreamSynchronize", 40, 120, connection_id=4))
    imported = import_path(save(tmp_path / "p", events))
    assert _rows(imported, "op", "wait_end_ns", "flow") == [
        ("Node@launch", None, 1),
        ("Node@launch", None, 2),
        ("MatMul", None, 1),
        ("StreamSynchronize", 160, 3),
        ("Add", None, 2),
    ]


def test_the_main_threads_wait_beside_the_dispatch_threads_launches(tmp_path: Path) -> None:
    wait = launch(40, 3, tid=6, name="AscendCL@aclrtSynchronizeStream", dur=120)
    imported = import_path(save(tmp_path / "p", [*USUAL, _MARK, *_TWO, wait]))
    details = imported.manifest.details
    assert details["host_threads"] == {
        "thread 5": {"calls": 2, "launched": 2, "waits": 0},
        "thread 6": {"calls": 1, "launched": 0, "waits": 1},
    }
    waits = imported.frames["events"].filter(pl.col("wait_end_ns").is_not_null())
    assert waits.select("op", "track").rows() == [("AscendCL@aclrtSynchronizeStream", "thread 6")]


def _collective() -> list[dict[str, Any]]:
    """One collective operator of 200 us: its row, a part on a plane, and its task on a stream."""
    return [
        thread(HCCL, 0, "Group 0 Communication"),
        thread(HCCL, 1, "Plane 0"),
        launch(25, 3),
        x(HCCL, 0, "hcom_allReduce__1", 150, 200, connection_id=3),
        x(HCCL, 1, "Reduce_Inline", 160, 90),
        task("SDMA", 160, 90, 3, stream=4, kind="SDMA"),
        task("Notify_Wait", 150, 10, 3, stream=4, kind="Notify Wait"),
    ]


def test_communication_is_work_once(tmp_path: Path) -> None:
    imported = import_path(save(tmp_path / "p", [*USUAL, _MARK, *_TWO, *_collective()]))
    device = imported.frames["events"].filter(pl.col("lane") != "host").sort("start_ns")
    assert device["op"].to_list() == ["MatMul", "Add", "hcom_allReduce__1"]
    assert imported.manifest.details["dropped"] == {
        "task type Notify Wait": 1,
        "parts of communication operators": 2,
    }
    assert imported.manifest.details["device_work_without_launch"] == 0


_STEP_TIMES = (
    "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage\n9,110,200,0,200,{free},320\n"
)


@pytest.mark.parametrize(("free", "findings"), [("10", 0), ("60", 1)])
def test_the_profilers_own_idle_time_is_held_against_ours(tmp_path: Path, free: str, findings: int) -> None:
    events = [*USUAL, _MARK, *_TWO, *_collective()]
    imported = import_path(save(tmp_path / "p", events, step_trace_time=_STEP_TIMES.format(free=free)))
    told: Any = imported.manifest.details["step_trace_time"]
    assert (told["free_us"], told["free_us_of_the_import"]) == (float(free), 10.0)
    assert (
        sum("step_trace_time.csv has the device free" in warning for warning in imported.manifest.warnings) == findings
    )


def test_several_devices_of_one_table(tmp_path: Path) -> None:
    header = "Step Id,Device_id,Name,Type,Start Time(us),Duration(us),Stream ID\n"
    table = header + "".join(f"1,{device},k{i},T,{stamp(10 * i)},5,2\n" for i, device in enumerate((0, 1, 1)))
    imported = import_path(save(tmp_path / "p", [], kernel_details=table))
    assert imported.manifest.details["device"] == "device 1"
    assert imported.manifest.details["dropped"] == {"work on device 0": 1}
    assert [row[0] for row in _rows(import_path(tmp_path / "p", ProfileOptions(Choices(device="device 0"))), "op")] == [
        "k0"
    ]


def test_several_devices_of_one_timeline(tmp_path: Path) -> None:
    """msprof puts the device's number into the low bits of the process numbers that it makes."""
    first, second = (4_000_000 << 10) + 416, (4_000_000 << 10) + 417
    events = [*names(CANN=CANN), *names(Ascend_Hardware=first), *names(Ascend_Hardware=second)]
    events += [x(first, 2, "a", 30, 5), x(second, 2, "b", 30, 5), x(second, 2, "c", 40, 5)]
    imported = import_path(save(tmp_path / "p", events))
    assert imported.manifest.details["device"] == "device 1"
    assert list(imported.manifest.details["lanes"]) == ["device 1 stream 2"]  # type: ignore[call-overload]


def _tables(**more: tuple[str, list[tuple[object, ...]]]) -> dict[str, tuple[str, list[tuple[object, ...]]]]:
    words = ["MatMul", "Add", "AI_CORE", "EVENT_WAIT", "MEMCPY_ASYNC", "Node@launch", "aclrtSynchronizeStream",
             "launch_target", "aten::mm", "hcom_allReduce__1", "ProfilerStep#9"]  # fmt: skip
    at = [BASE_NS + 1000 * us for us in range(1000)]
    word = {name: number for number, name in enumerate(words)}
    thread_5, thread_6 = (77 << 32) + 5, (77 << 32) + 6
    tables: dict[str, tuple[str, list[tuple[object, ...]]]] = {
        "STRING_IDS": ("id, value", [(number, name) for name, number in word.items()]),
        "TASK": (
            "startNs, endNs, deviceId, connectionId, globalTaskId, globalPid, taskType, contextId, streamId, taskId, "
            "modelId",
            [
                (at[30], at[130], 0, 1, 100, 77, word["AI_CORE"], 0, 2, 1, 0),
                (at[140], at[150], 0, 2, 101, 77, word["AI_CORE"], 0, 2, 2, 0),
                (at[151], at[152], 0, 9, 102, 77, word["EVENT_WAIT"], 0, 2, 3, 0),
                (str(at[160]), str(at[170]), 0, 3, 103, 77, word["MEMCPY_ASYNC"], 0, 5, 4, 0),
                (at[180], at[170], 0, 4, 104, 77, word["AI_CORE"], 0, 2, 5, 0),
            ],
        ),
        "COMPUTE_TASK_INFO": ("name, globalTaskId", [(word["MatMul"], 100), (word["Add"], 101)]),
        "MEMCPY_INFO": ("globalTaskId, size, memcpyOperation", [(103, 640, 2)]),
        "CANN_API": (
            "startNs, endNs, type, globalTid, connectionId, name",
            [
                (at[10], at[15], 10000, thread_5, 1, word["Node@launch"]),
                (at[20], at[25], 10000, thread_5, 2, word["Node@launch"]),
                (at[26], at[28], 20000, thread_5, 3, word["Node@launch"]),
                (at[40], at[175], 20000, thread_6, 8, word["aclrtSynchronizeStream"]),
                (at[41], at[42], 20000, thread_6, 55, word["Node@launch"]),
            ],
        ),
        "NPU_INFO": ("id, name", [(0, "910B4")]),
        "STEP_TIME": ("id, startNs, endNs", [(9, at[0], at[999])]),
    }
    mstx = (at[5], at[27], 1, 0, None, word["launch_target"], thread_5, thread_5, 0, 0)
    tables["MSTX_EVENTS"] = (
        "startNs, endNs, eventType, rangeId, category, message, globalTid, endGlobalTid, domainId, connectionId",
        [mstx],
    )
    tables["PYTORCH_API"] = (
        "startNs, endNs, globalTid, connectionId, name",
        [(at[1], at[9], thread_6, 1, word["aten::mm"])],
    )
    return {**tables, **more}


@pytest.mark.parametrize("name", ["ascend_pytorch_profiler_0.db", "msprof_20250101.db"])
@pytest.mark.parametrize("as_file", [True, False])
def test_databases_are_read(tmp_path: Path, name: str, as_file: bool) -> None:
    path = save_database(tmp_path / name, _tables())
    imported = import_path(path if as_file else tmp_path)
    assert _rows(imported, "lane", "op", "start_ns", "end_ns", "flow", "bytes", "step") == [
        ("host", "Node@launch", 10, 15, 1, 0, 9),
        ("host", "Node@launch", 20, 25, 2, 0, 9),
        ("host", "Node@launch", 26, 28, 3, 0, 9),
        ("compute", "MatMul", 30, 130, 1, 0, 9),
        ("host", "aclrtSynchronizeStream", 40, 175, 4, 0, 9),
        ("compute", "Add", 140, 150, 2, 0, 9),
        ("copy", "MEMCPY_ASYNC", 160, 170, 3, 640, 9),
    ]
    assert imported.manifest.device_name == "Ascend 910B4"
    assert imported.manifest.details["dropped"] == {
        "task type EVENT_WAIT": 1,
        "CANN calls that neither launch nor wait": 1,
        "PYTORCH_API: ops, or marks without a length": 1,
    }
    assert imported.manifest.warnings == ["1 rejected: row of TASK has no span of time (first: 1 rows)"]


def test_steps_of_a_database_may_have_times_in_texts(tmp_path: Path) -> None:
    end = BASE_NS + 999_000
    steps: list[tuple[object, ...]] = [("9", str(BASE_NS), f"{end}.0"), (10, "--5", end), (11, end, BASE_NS)]
    tables = _tables(STEP_TIME=("id, startNs, endNs", steps))
    imported = import_path(save_database(tmp_path / "msprof_1.db", tables))
    assert set(imported.frames["events"]["step"]) == {9}
    assert any("2 rejected: row of STEP_TIME is no step" in warning for warning in imported.manifest.warnings)


def test_mstx_ranges_of_a_database_are_annotations(tmp_path: Path) -> None:
    path = save_database(tmp_path / "msprof_1.db", _tables())
    imported = import_profile(path, ProfileOptions(Choices(rules=load_rules("xllm"))))
    assert ("launch_target", 5) in _rows(imported, "op", "start_ns")
    assert ("target", 30) in _rows(imported, "op", "start_ns")


def test_mstx_ranges_of_a_timeline_are_annotations(tmp_path: Path) -> None:
    events = [*USUAL, *names(MsTx=19), x(19, 5, "launch_target", 5, 30), *_TWO]
    imported = import_profile(save(tmp_path / "p", events), ProfileOptions(Choices(rules=load_rules("xllm"))))
    assert _rows(imported, "op", "start_ns", "source") == [
        ("launch_target", 5, "launch_target"),
        ("target", 30, "MatMul"),
        ("target", 140, "Add"),
    ]


def test_collective_operators_of_a_database_stand_for_their_parts(tmp_path: Path) -> None:
    tables = _tables(
        COMMUNICATION_OP=(
            "opName, startNs, endNs, connectionId, groupName, opId",
            [(9, BASE_NS + 150_000, BASE_NS + 350_000, 3, 1, 7)],
        ),
        COMMUNICATION_TASK_INFO=("name, globalTaskId", [(9, 103)]),
    )
    imported = import_path(save_database(tmp_path / "msprof_1.db", tables))
    assert ("hcom_allReduce__1", 150, 3) in _rows(imported, "op", "start_ns", "flow")
    assert imported.manifest.details["dropped"]["parts of communication operators"] == 1


def test_a_database_is_not_written_to(tmp_path: Path) -> None:
    path = save_database(tmp_path / "msprof_1.db", _tables())
    before = path.read_bytes()
    path.chmod(stat.S_IRUSR)
    import_path(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["msprof_1.db"]


@pytest.mark.parametrize("cut", [100, 5000])
def test_a_broken_or_foreign_database_is_refused(tmp_path: Path, cut: int) -> None:
    path = save_database(tmp_path / "msprof_1.db", _tables())
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(TraceError, match="cannot be read as an sqlite database"):
        import_path(path)
    foreign = save_database(tmp_path / "other.db", {"USERS": ("id", [(1,)])})
    with pytest.raises(TraceError, match=r"has no table TASK.*\(its tables: USERS\)"):
        import_path(foreign)


def test_a_folder_of_nothing_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"give a torch_npu profiler's folder"):
        import_path(tmp_path)


def test_a_profile_beside_its_raw_data_is_one_profile(tmp_path: Path) -> None:
    """torch_npu leaves msprof's own output and a database beside what it made of them."""
    root = save(tmp_path / "host_1_ascend_pt", [*USUAL, _MARK, *_TWO])
    raw = root / "PROF_000001_2025" / "mindstudio_profiler_output"
    raw.mkdir(parents=True)
    (raw / "msprof_20250101.json").write_text(json.dumps([*USUAL, *_TWO]))
    save_database(root / "ascend_pytorch_profiler_0.db", _tables())
    for path in (tmp_path, root):
        assert _rows(import_path(path), "op", "start_ns", "flow") == _WHOLE
    assert _rows(import_path(raw.parent), "op", "start_ns", "flow") == _WHOLE

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from simtool.errors import TraceError
from simtool.trace.checks.check import check_trace
from simtool.trace.importers.profile import import_profile

_SAMPLES = Path(__file__).parents[4] / "shared" / "samples"
_BASE_US = 1_736_408_883_000_000

_KERNELS = """\
Step Id,Task ID,Stream ID,Name,Type,Start Time(us),Duration(us)
5,1,2,MatMul,MatMulV2,1736408883000010.001\t,3.5
5,2,2,Softmax,SoftmaxV2,1736408883000014.000\t,1
6,3,2,MatMul,MatMulV2,1736408883000110.000\t,3.5
6,N/A,N/A,hcom_allReduce_,hcom,1736408883000120.000\t,9
6,4,2,Broken,MatMulV2,N/A,N/A
"""

_PYTHON, _CANN, _NPU = 10, 20, 30


def _x(pid: int, tid: int, name: str, at: float, dur: float, **args: object) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "name": name,
        "ts": f"{_BASE_US + Decimal(str(at)):.3f}",
        "dur": dur,
        "args": args,
    }


def _process(pid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}


_VIEW = [
    _process(_PYTHON, "Python"),
    _process(_CANN, "CANN"),
    _process(_NPU, "Ascend Hardware"),
    _x(_PYTHON, 1, "ProfilerStep#5", 0, 100),
    _x(_PYTHON, 1, "aten::mm", 1, 5),
    _x(_CANN, 9, "AscendCL@aclCreateTensorDesc", 1, 1, connection_id=70),
    _x(_CANN, 9, "Node@launch", 3, 2, connection_id=71),
    _x(_CANN, 9, "AscendCL@aclrtMemcpyAsync", 6, 1, connection_id=72),
    _x(_CANN, 9, "AscendCL@aclrtSynchronizeStreamWithTimeout", 8, 30, connection_id=73),
    _x(_NPU, 2, "MatMul", 10.001, 3.5, connection_id=71, **{"Task Type": "AI_CORE"}),
    _x(_NPU, 2, "EVENT_WAIT", 13.6, 0.02, connection_id=74, **{"Task Type": "EVENT_WAIT_SQE"}),
    _x(_NPU, 3, "MEMCPY_ASYNC", 20, 2, connection_id=72, **{"Task Type": "PCIE_DMA_SQE"}),
    {"ph": "C", "pid": _NPU, "tid": 0, "name": "freq", "ts": "1", "args": {}},
]


def _profile(folder: Path, view: list[Any] | None = None, kernels: str | None = None) -> Path:
    output = folder / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    if view is not None:
        (output / "trace_view.json").write_text(json.dumps(view))
    if kernels is not None:
        (output / "kernel_details.csv").write_text(kernels, newline="")
    return folder


def test_the_timeline_is_mapped_and_linked(tmp_path: Path) -> None:
    imported = import_profile(_profile(tmp_path / "p", _VIEW, _KERNELS))
    frame = imported.frames["events"].select("lane", "op", "start_ns", "end_ns", "flow", "step")
    base_ns = _BASE_US * 1000
    assert sorted((row[0], row[1], row[2] - base_ns, row[3] - base_ns, *row[4:]) for row in frame.iter_rows()) == [
        ("compute", "MEMCPY_ASYNC", 20_000, 22_000, 2, 5),
        ("compute", "MatMul", 10_001, 13_501, 1, 5),
        ("host", "AscendCL@aclrtMemcpyAsync", 6_000, 7_000, 2, 5),
        ("host", "AscendCL@aclrtSynchronizeStreamWithTimeout", 8_000, 38_000, 3, 5),
        ("host", "Node@launch", 3_000, 5_000, 1, 5),
    ]
    details = imported.manifest.details
    assert details["timeline_from"] == "trace_view.json"
    assert details["kernel_details"] == {"kernels": 3, "found_in_timeline": 1, "streams_named": True}
    assert details["dropped"] == {
        "host ops that are no annotation": 1,
        "task type EVENT_WAIT_SQE": 1,
        "phase C": 1,
        "CANN calls that neither launch nor wait": 1,
        "communication operators, which span several streams": 1,
    }
    assert imported.manifest.device == "npu"
    assert {f.table for f in check_trace(imported.write(tmp_path / "bundle"))} == {"manifest"}


@pytest.mark.parametrize("view", [None, _VIEW[:3]], ids=["no timeline", "a timeline without work"])
def test_kernel_details_alone_give_the_streams(tmp_path: Path, view: list[Any] | None) -> None:
    imported = import_profile(_profile(tmp_path / "p", view, _KERNELS))
    events = imported.frames["events"]
    assert events.select("step", "op", "lane").rows() == [
        (5, "MatMul", "compute"),
        (5, "Softmax", "compute"),
        (6, "MatMul", "compute"),
    ]
    assert events["start_ns"].to_list()[0] == _BASE_US * 1000 + 10_001
    assert imported.manifest.details["host_thread"] is None
    assert imported.manifest.details["rejected"] == {
        "row of kernel_details.csv is no kernel": {"count": 1, "first": "line 6: Broken N/A N/A"}
    }


def test_a_folder_of_one_profile_is_opened_and_of_two_is_not(tmp_path: Path) -> None:
    _profile(tmp_path / "rank0_ascend_pt", _VIEW)
    assert import_profile(tmp_path).frames["events"].height == 5
    _profile(tmp_path / "rank1_ascend_pt", _VIEW)
    with pytest.raises(TraceError, match=r"2 profiles .*rank0_ascend_pt.*rank1_ascend_pt"):
        import_profile(tmp_path)


def test_what_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"neither trace_view\.json nor kernel_details\.csv"):
        import_profile(tmp_path)
    with pytest.raises(TraceError, match=r"no column 'Start Time\(us\)'; it has Name, Duration\(us\)"):
        import_profile(_profile(tmp_path / "a", kernels="Name,Duration(us)\nx,1\n"))
    with pytest.raises(TraceError, match="no device work"):
        import_profile(_profile(tmp_path / "b", view=_VIEW[:5]))


@pytest.mark.skipif(not _SAMPLES.is_dir(), reason="the public sample traces are not beside the repository")
def test_real_samples(tmp_path: Path) -> None:
    whole = import_profile(_SAMPLES / "ascend_msinsight_level1_rank0")
    assert whole.manifest.details["kernel_details"] == {"kernels": 187, "found_in_timeline": 187, "streams_named": True}
    assert whole.manifest.details["device_work_without_launch"] == 0
    assert {f.table for f in check_trace(whole.write(tmp_path / "whole"))} <= {"manifest"}
    kernels = import_profile(_SAMPLES / "ascend_msinsight_st_qwen3_rank0")
    assert kernels.frames["events"].height == 2448
    assert kernels.manifest.details["rejected"] == {}

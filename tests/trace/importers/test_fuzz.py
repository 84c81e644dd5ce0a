"""Whatever a file holds, an import gives a trace or a sentence: never anything else."""

from __future__ import annotations

import gzip
import json
import random
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from simtool.errors import TraceError
from simtool.trace.checks.check import Severity, check_trace
from simtool.trace.importers.detect import import_path
from simtool.trace.trace import Trace
from tests.trace.importers import ascend_files as ascend
from tests.trace.importers.kineto_file import call, kernel, span

_KINETO = json.dumps(
    {
        "baseTimeNanoseconds": 10**18,
        "traceEvents": [
            span("user_annotation", "step[decode bs=2]", 0, 50),
            call("cudaGraphLaunch", 5, 5, 1),
            kernel("a", 12, 30, 1),
            span("cuda_sync", "Stream Sync", 20, 30, 0, 7, stream=7, correlation=2),
            call("cudaStreamSynchronize", 20, 30, 2),
            {"ph": "B", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 60, "pid": 40, "tid": 41},
            {"ph": "E", "ts": 65, "pid": 40, "tid": 41},
        ],
    }
).encode()
_ASCEND = json.dumps(
    [*ascend.USUAL, ascend.launch(10, 1), ascend.task("MatMul", 30, 100, 1), ascend.x(ascend.HCCL, 0, "hcom", 40, 9)]
).encode()
_TABLE = (
    b"Step Id,Device_id,Name,Start Time(us),Duration(us),Stream ID\n1,0,a,1736408883600030.125\t,100,2\n1,0,b,5,N/A,2\n"
)


def _imports_or_refuses(data: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        try:
            trace = import_path(path).write(Path(folder) / "trace")
        except TraceError as error:
            refusal = str(error)
        else:
            refusal = ""
            assert _contradictions(trace) == []
        assert "\n" not in refusal


def _contradictions(trace: Trace) -> list[str]:
    return [str(finding) for finding in check_trace(trace) if finding.severity is Severity.ERROR]


@given(st.sampled_from([_KINETO, _ASCEND]), st.integers(0, 2**32), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_bytes_changed_cut_out_and_doubled(whole: bytes, seed: int, times: int) -> None:
    draw, data = random.Random(seed), bytearray(whole)
    for _ in range(times):
        at, length = draw.randrange(len(data) + 1), draw.randrange(12)
        piece = draw.choice(
            (b"", b'"', b"\\", b"{", b"}", b"]", b",", b"1e999", b"NaN", b"\xff", b"\x00", data[at : at + 9])
        )
        data[at : at + length] = piece
        if not data:
            break
    _imports_or_refuses(bytes(data), "t.json")
    _imports_or_refuses(gzip.compress(bytes(data))[: -draw.randrange(1, 20)], "t.json.gz")


@given(st.binary(max_size=200))
@settings(max_examples=40, deadline=None)
def test_any_bytes(data: bytes) -> None:
    for name in ("t.json", "t.db", "t.csv"):
        _imports_or_refuses(data, name)


@given(st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_tables_with_cells_changed(seed: int) -> None:
    draw = random.Random(seed)
    cells = [line.split(b",") for line in _TABLE.split(b"\n")]
    for _ in range(3):
        row = draw.choice(cells[1:])
        row[draw.randrange(len(row))] = draw.choice(
            (b"", b"-1", b"N/A", b"1e400", b'"', b"\xff", b"99999999999999999999")
        )
    _imports_or_refuses(b"\n".join(b",".join(row) for row in cells), "kernel_details.csv")


@given(st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_databases_with_bytes_changed(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tables: dict[str, tuple[str, list[tuple[object, ...]]]] = {
            "STRING_IDS": ("id, value", [(1, "MatMul"), (2, "AI_CORE")]),
            "TASK": (
                "startNs, endNs, deviceId, connectionId, globalTaskId, taskType, streamId",
                [(10**18 + i, 10**18 + i + 5, 0, i, i, 2, 3) for i in range(20)],
            ),
            "CANN_API": (
                "startNs, endNs, type, globalTid, connectionId, name",
                [(10**18 + i, 10**18 + i + 1, 1, 5, i, 1) for i in range(20)],
            ),
        }
        whole = ascend.save_database(Path(folder) / "whole.db", tables).read_bytes()
    draw, data = random.Random(seed), bytearray(whole)
    for _ in range(draw.randrange(1, 30)):
        data[draw.randrange(len(data))] = draw.randrange(256)
    _imports_or_refuses(bytes(data), "msprof_1.db")

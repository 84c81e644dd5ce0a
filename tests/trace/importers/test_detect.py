from __future__ import annotations

import json
from pathlib import Path

import pytest

from simtool.errors import TraceError
from simtool.step.ops import Lane
from simtool.trace.checks.check import check_trace
from simtool.trace.importers.detect import import_path
from simtool.trace.importers.profile import ProfileOptions
from simtool.trace.importers.to_events.mapping import Choices


def test_a_request_trace_becomes_a_trace_of_requests(tmp_path: Path) -> None:
    path = tmp_path / "conversation.jsonl"
    path.write_text('{"timestamp": 3, "input_length": 10, "output_length": 4}\n{"timestamp": 5}\n')
    trace = import_path(path).write(tmp_path / "bundle")
    (request,) = trace.table("requests").to_dicts()
    assert (request["prompt_tokens"], request["output_tokens"], request["max_new_tokens"]) == (10, 0, 4)
    assert request["admitted_ns"] is None
    assert trace.manifest.engine == "mooncake request trace"
    (finding,) = check_trace(trace)
    assert finding.message.startswith("1 rejected: a length is no whole number")
    with pytest.raises(TraceError, match="no streams"):
        import_path(path, ProfileOptions(Choices(lanes={"stream 1": Lane.COPY})))


def test_files_and_folders_find_their_importer(tmp_path: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "pid": 0, "tid": 7}
    (tmp_path / "t.json").write_text(json.dumps([kernel]))
    assert import_path(tmp_path / "t.json").manifest.engine == "torch.profiler (Kineto)"
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "kernel_details.csv").write_text("Name,Stream ID,Start Time(us),Duration(us)\nk,2,1,1\n")
    assert import_path(tmp_path / "p").manifest.engine == "torch_npu profiler"
    with pytest.raises(TraceError, match="is not there"):
        import_path(tmp_path / "nothing")

"""The step log: what its lines come to, what is wrong with broken ones, and the writer that engines copy."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simtool.cli.main import run
from simtool.errors import TraceError
from simtool.trace.checks.check import Severity, check_trace
from simtool.trace.importers.detect import import_path
from simtool.trace.importers.imported import Imported
from simtool.trace.importers.step_log import read
from simtool.trace.importers.step_log.importing import import_step_log
from simtool.trace.importers.step_log.read import read_step_log
from simtool.trace.trace import open_trace

sys.path.insert(0, str(Path(__file__).parents[3] / "integrations" / "python"))
from simtool_step_log import StepLog  # the file that engines copy, not a package

HEADER = {"line": "header", "version": 1, "engine": "toy", "sl": 3, "algorithm": "dspark", "clock": "monotonic"}
CONFIDENCE = [[0.9, 0.5, 0.25], [0.8, 0.4, 0.2]]
LINES: list[dict[str, Any]] = [
    {**HEADER, "temperature": 0},
    {"line": "request", "request": "a", "arrival_ns": 0, "prompt_tokens": 10, "max_new_tokens": 6},
    {"line": "request", "request": "b", "arrival_ns": 5, "prompt_tokens": 20, "max_new_tokens": 5},
    {
        "line": "step",
        "step": 40,
        "kind": "prefill",
        "start_ns": 10,
        "end_ns": 90,
        "request": ["a", "b"],
        "prompt_tokens": [10, 20],
    },
    {
        "line": "step",
        "step": 41,
        "start_ns": 100,
        "end_ns": 200,
        "request": ["a", "b"],
        "anchor": [10, 20],
        "prefix_len": [3, 1],
        "accepted": [1, 1],
        "emitted": [2, 2],
        "confidence": CONFIDENCE,
    },
    {
        "line": "step",
        "step": 42,
        "start_ns": 210,
        "end_ns": 300,
        "request": ["a", "b"],
        "anchor": [12, 22],
        "prefix_len": [3, 3],
        "accepted": [3, 2],
        "emitted": [3, 2],
        "confidence": CONFIDENCE,
    },
    {"line": "request", "request": "a", "finished_ns": 300, "finish_reason": "length", "output_tokens": 6},
    {"line": "request", "request": "b", "finished_ns": 300, "finish_reason": "length", "output_tokens": 5},
]


def _write(path: Path, lines: list[dict[str, Any]], end: str = "\n") -> Path:
    path.write_text("\n".join(map(json.dumps, lines)) + end)
    return path


def _imported(tmp_path: Path, lines: list[dict[str, Any]]) -> Imported:
    return import_step_log(_write(tmp_path / "log.jsonl", lines))


def test_the_lines_become_tables(tmp_path: Path) -> None:
    trace = _imported(tmp_path, LINES).write(tmp_path / "trace")
    steps = trace.table("steps")
    assert steps.select("step", "kind", "batch", "validate_rows", "pruned").rows() == [
        (0, "prefill", 2, 30, False),
        (1, "decode", 2, 6, True),
        (2, "decode", 2, 8, False),
    ]
    rows = trace.table("rows").select(
        "step", "request_id", "slot", "anchor_position", "prefix_len", "accepted", "emitted"
    )
    assert rows.row(1) == (1, "b", 1, 20, 1, 1, 2)
    requests = trace.table("requests").select("request_id", "first_token_ns", "output_tokens", "finish_reason")
    assert requests.rows() == [("a", 90, 6, "length"), ("b", 90, 5, "length")]
    outcomes = trace.table("outcomes").select("request_id", "anchor_position", "match_run", "source")
    # b at 20 offered one draft and it was accepted, which says nothing of the second
    assert outcomes.rows() == [
        ("a", 10, 1, "visited"),
        ("a", 12, 3, "visited"),
        ("b", 20, None, "visited"),
        ("b", 22, 2, "visited"),
    ]
    assert (trace.manifest.origin, trace.manifest.sl, trace.manifest.concurrency) == ("imported", 3, 2)
    assert [f for f in check_trace(trace) if f.severity is Severity.ERROR] == []


def test_drafted_tokens_tell_what_the_prune_hid(tmp_path: Path) -> None:
    lines = [dict(line) for line in LINES]
    lines[4]["draft_tokens"] = [[1, 2, 3], [7, 8, 9]]
    lines[7]["output_ids"] = [5, 7, 8, 1, 1]  # the first token, then what followed anchor 20
    outcomes = _imported(tmp_path, lines).frames["outcomes"]
    assert outcomes.filter(request_id="b", anchor_position=20)["match_run"].to_list() == [2]


def test_without_confidence_each_position_has_its_acceptance_rate(tmp_path: Path) -> None:
    lines = [{name: value for name, value in line.items() if name != "confidence"} for line in LINES]
    imported = _imported(tmp_path, lines)
    assert imported.frames["rows"]["confidence"].null_count() == 4
    # position 1: accepted in all of 4 rows; 2: in 2 of 3 that offered it; 3: in 1 of 2
    assert imported.frames["outcomes"]["confidence"][0].to_list() == pytest.approx([1.0, 2 / 3, 0.5])
    assert any("4 rows have no confidence" in warning for warning in imported.manifest.warnings)


def test_requests_without_lines_of_their_own(tmp_path: Path) -> None:
    lines = [line for line in LINES if line["line"] != "request"]
    last = {**LINES[5], "step": 43, "start_ns": 310, "end_ns": 320, "request": ["b"], "anchor": [24]}
    last |= {"prefix_len": [0], "accepted": [0], "emitted": [1], "confidence": [[0.5, 0.5, 0.5]]}
    requests = _imported(tmp_path, [*lines, last]).frames["requests"]
    finished = requests.select("request_id", "prompt_tokens", "output_tokens", "finished_ns").rows()
    assert finished == [("a", 10, 6, 300), ("b", 20, 6, None)]


def test_a_log_that_began_late_gives_no_whole_request(tmp_path: Path) -> None:
    imported = _imported(tmp_path, [*LINES[:3], *LINES[5:]])
    assert imported.frames["requests"]["finished_ns"].null_count() == 2
    assert any("2 finished requests are not whole" in warning for warning in imported.manifest.warnings)


def test_mixed_steps_and_steps_scheduled_ahead_are_told(tmp_path: Path) -> None:
    lines = [dict(line) for line in LINES]
    lines[5] |= {"start_ns": 150, "prefilled": ["c"]}
    imported = _imported(tmp_path, lines)
    assert imported.frames["steps"].select("start_ns", "end_ns").rows()[2] == (200, 300)
    assert imported.manifest.details["overlapping_steps"] == 1
    assert imported.manifest.details["mixed_steps"] == 1
    assert any("prefill work" in warning for warning in imported.manifest.warnings)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"prefix_len": [4, 1]}, "prefix_len is above sl, 3"),
        ({"accepted": [1]}, "accepted does not hold one value"),
        ({"accepted": [1, 2]}, "accepted is above prefix_len"),
        ({"emitted": [3, 2]}, "emitted is outside 1 to accepted"),
        ({"request": ["a", "a"]}, "a request is in the step twice"),
        ({"end_ns": 99}, "ends before it starts"),
        ({"confidence": [[0.5], None]}, "confidence does not hold sl values"),
        ({"slot": [1, 1]}, "two sequences in one slot"),
        ({"kind": "verify"}, "kind is 'verify'"),
        ({"ops": [["target", 5, 4, None, None]]}, "an op's span"),
        ({"anchor": [-1, 20]}, "line is not as the format says"),
        ({"anchors": [1, 2]}, "unknown field `anchors`"),
        ({"confidence": [[0.5, 1.5, 0.1], None]}, "line is not as the format says"),
    ],
)
def test_a_broken_line_costs_that_line(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    lines = [*LINES[:4], {**LINES[4], **change}, *LINES[5:]]
    log = read_step_log(_write(tmp_path / "log.jsonl", lines))
    assert [step.step for step in log.steps] == [40, 42]
    assert any(reason in told for told in log.ledger.rejected), log.ledger.rejected


def test_a_lost_line_is_told_and_the_trace_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _write(
        tmp_path / "log.jsonl", [*LINES[:4], LINES[5], {**LINES[5], "step": 43, "start_ns": 310, "end_ns": 311}]
    )
    assert run(["import", "--step-log", str(path), "--out", str(tmp_path / "t")]) == 1
    assert "anchor does not follow from the step before" in capsys.readouterr().out
    assert run(["calibrate", str(tmp_path / "t")]) == 2


def test_half_a_line_at_the_end_is_told_and_the_rest_used(tmp_path: Path) -> None:
    path = _write(tmp_path / "log.jsonl", LINES[:6], end='\n{"line": "step", "st')
    imported = import_step_log(path)
    assert imported.frames["steps"].height == 3
    assert any(warning.startswith("the last line is cut off") for warning in imported.manifest.warnings)
    assert not imported.manifest.details["rejected"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "does not begin with a step log's header"),
        ('{"line": "header"}\n', "does not begin"),
        (json.dumps({**HEADER, "version": 2}), "step log version 2.*upgrade simtool"),
        (json.dumps({**HEADER, "sl": "seven"}), "header: Expected `int`"),
        (json.dumps(HEADER), "holds no step"),
        (json.dumps(HEADER) + "\n" + json.dumps({**HEADER, "sl": 5}), "two logs"),
    ],
)
def test_a_file_that_is_no_step_log_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.jsonl").write_text(text)
    with pytest.raises(TraceError, match=message):
        read_step_log(tmp_path / "x.jsonl")
    (tmp_path / "x.jsonl").write_bytes(text.encode("utf-16") or b"\xff\xfe")
    with pytest.raises(TraceError, match="UTF-16"):
        read_step_log(tmp_path / "x.jsonl")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    line=st.integers(0, len(LINES) - 1),
    values=st.dictionaries(
        st.sampled_from(["request", "step", "anchor", "emitted", "start_ns", "confidence", "ops", "prefilled", "line"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3), st.lists, max_leaves=4
        ),
        max_size=3,
    ),
    cut=st.integers(0, 900),
)
def test_no_text_ends_in_a_traceback(tmp_path: Path, line: int, values: dict[str, Any], cut: int) -> None:
    lines = [json.dumps({**each, **values} if i == line else each) for i, each in enumerate(LINES)]
    (tmp_path / "f.jsonl").write_text("\n".join(lines)[: 2000 - cut])
    assert run(["import", "--step-log", str(tmp_path / "f.jsonl"), "--out", str(tmp_path / "t"), "--force"]) in (
        0,
        1,
        2,
    )


def test_the_writer_writes_what_the_reader_reads(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    log = StepLog(str(path), engine="toy", sl=3, algorithm="dspark", temperature=0.0, concurrency=2)
    assert log.next_step == 0
    log.request("a", arrival_ns=log.now_ns(), prompt_tokens=4, max_new_tokens=9)
    with log.timed("launch_target"):
        pass
    log.op("read_tokens", 100, 200, wait=(120, 190))
    columns = {"anchor": [4], "prefix_len": [3], "accepted": [1], "emitted": [2], "confidence": [[0.5, 0.25, 1.0]]}
    log.step(50, 300, ["a"], **columns)
    log.step(300, 400, ["a"], anchor=[6], prefix_len=[3], accepted=[0], emitted=[1], confidence=[None])
    log.step(400, 500, ["a"], anchor=[7], prefix_len=[float("nan")], accepted=[0], emitted=[1])
    assert log.close() == 1  # no JSON holds the last one
    read = read_step_log(path)
    assert [step.step for step in read.steps] == [0, 1]
    assert [op[0] for op in read.steps[0].ops] == ["launch_target", "read_tokens"]
    assert read.header.unix_offset_ns is not None
    assert read.requests["a"]["max_new_tokens"] == 9
    assert not read.ledger.rejected


def test_the_writer_goes_on_after_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    first = StepLog(str(path), engine="toy", sl=3, algorithm="dspark")
    first.step(0, 1, ["a"], anchor=[4], prefix_len=[3], accepted=[1], emitted=[2])
    first.close()
    with path.open("a") as file:
        file.write('{"line":"step","step":1,"start_')  # a killed writer's half line
    second = StepLog(str(path), engine="toy", sl=3, algorithm="dspark")
    assert second.next_step == 1
    second.step(2, 3, ["a"], anchor=[6], prefix_len=[3], accepted=[1], emitted=[2])
    second.close()
    log = read_step_log(path)
    assert ([step.step for step in log.steps], log.resumed, log.cut) == ([0, 1], 1, False)
    assert not log.ledger.rejected


def test_gzip_and_a_step_log_as_the_only_input(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(_write(tmp_path / "log.jsonl", LINES).read_bytes()))
    assert run(["import", str(path), "--out", str(tmp_path / "t")]) == 0
    assert open_trace(tmp_path / "t").table("steps").height == 3
    assert run(["import", str(path), "--lane", "s=copy", "--out", str(tmp_path / "u")]) == 2
    assert run(["import", "--out", str(tmp_path / "u")]) == 2
    assert run(["import", "--step-log", str(path), "--join", "time", "--out", str(tmp_path / "u")]) == 2


def _sglang(**reqs: Any) -> dict[str, Any]:
    sequence = {"rid": "a", "req_pool_index": 4, "verify_len": 4, "correct_drafts": 2, "cap_trim": 0, "bonus_token": 9}
    first = {**sequence, "prefix_len": 10, "acc_len": 3, "draft_tokens": [5, 6, 7, 8], "confidence": [0.9, 0.8, 0.7]}
    second = {**first, "prefix_len": 13, "verify_len": 2, "acc_len": 2, **reqs}
    records = [
        {"forward_ct": 7, "bs": 1, "step_cpu_ms": None, "reqs": [first]},
        {"forward_ct": 8, "bs": 1, "step_cpu_ms": 12.5, "reqs": [second]},
    ]
    return {"mode": "confidence", "gamma": 3, "verify_num_draft_tokens": 4, "components": ["reqs"], "records": records}


def test_sglangs_own_records_are_a_step_log(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps({"version": "x", "internal_states": [{"dspark": _sglang()}]}))
    assert run(["import", str(tmp_path / "s.json"), "--out", str(tmp_path / "t")]) == 0
    trace = open_trace(tmp_path / "t")
    rows = trace.table("rows").select(
        "request_id", "anchor_position", "prefix_len", "accepted", "emitted", "draft_tokens"
    )
    assert rows.rows() == [("a", 10, 3, 2, 3, [6, 7, 8]), ("a", 13, 1, 1, 2, [6, 7, 8])]
    steps = trace.table("steps").select("start_ns", "end_ns").rows()
    assert steps == [(0, 12_500_000), (12_500_000, 25_000_000)]  # the first did not tell, and takes the usual
    assert trace.manifest.engine == "SGLang"
    assert any("no time stamps" in warning for warning in trace.manifest.warnings)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"prefix_len": 1 << 40}, "record is not as SGLang writes it: Expected `int` <= 2147483647"),
        ({"acc_len": -1}, "record is not as SGLang writes it: Expected `int` >= 0"),
        ({"confidence": [0.9, 1.5, 0.2]}, "step: Expected `float` <= 1.0"),
        ({"draft_tokens": [5, 1 << 40, 7]}, "step: Expected `int` <= 2147483647"),
    ],
)
def test_a_record_of_sglang_beyond_reason_costs_that_record(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    (tmp_path / "s.json").write_text(json.dumps(_sglang(**changes)))
    log = read_step_log(tmp_path / "s.json")
    assert [step.step for step in log.steps] == [7]
    assert [told.split(" - at ")[0] for told in log.ledger.rejected] == [reason]


def test_sglangs_numbers_in_another_writing_and_what_is_no_number(tmp_path: Path) -> None:
    plain = _sglang()
    (tmp_path / "s.json").write_text(json.dumps(plain))
    as_real = {key: float(value) for key, value in plain["records"][1]["reqs"][0].items() if isinstance(value, int)}
    (tmp_path / "r.json").write_text(json.dumps(_sglang(**as_real) | {"gamma": 3.0}))
    assert read_step_log(tmp_path / "r.json").steps == read_step_log(tmp_path / "s.json").steps
    (tmp_path / "n.json").write_text(json.dumps(_sglang(confidence=[0.9, float("nan"), 0.7])))
    log = read_step_log(tmp_path / "n.json")
    assert [step.confidence for step in log.steps] == [[[0.9, 0.8, 0.7]], [None]]


@pytest.mark.parametrize("gamma", [10**9, -1, True, "x", None])
def test_sglangs_drafts_per_block_have_a_range(gamma: object, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps(_sglang() | {"gamma": gamma}))
    with pytest.raises(TraceError, match="gamma, SGLang's drafts per block"):
        read_step_log(tmp_path / "s.json")


def test_what_a_step_log_unfolds_to_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.jsonl.gz"
    monkeypatch.setattr(read, "_LONGEST_LINE", 1 << 16)
    for data, told in (
        (b" " * (1 << 17), "a line of more than 0 MiB"),
        (b'"verify_num_draft_tokens"' + b"\n" * (1 << 17), "too long for SGLang's records"),
    ):
        path.write_bytes(gzip.compress(data))
        with pytest.raises(TraceError, match=told):
            read_step_log(path)
        with pytest.raises(TraceError):
            import_path(path)
    monkeypatch.setattr(read, "MAX_EXPANDED_BYTES", 100)
    path.write_bytes(gzip.compress(_write(tmp_path / "log.jsonl", LINES).read_bytes()))
    with pytest.raises(TraceError, match="unfolds to more than"):
        read_step_log(path)


def test_sglangs_broken_records_are_named(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps(_sglang(verify_len=9)))
    log = read_step_log(tmp_path / "s.json")
    assert [step.step for step in log.steps] == [7]
    assert log.ledger.rejected == {"step: prefix_len is above sl, 3": 1}
    whole = _sglang()
    whole["records"] = [{"forward_ct": 1}, "two"]
    (tmp_path / "s.json").write_text(json.dumps(whole))
    with pytest.raises(TraceError, match="without their sequences"):
        read_step_log(tmp_path / "s.json")
    (tmp_path / "s.json").write_text(json.dumps(whole | {"records": ["one", "two"]}))
    with pytest.raises(TraceError, match="none of SGLang's records can be read: 2 rejected"):
        read_step_log(tmp_path / "s.json")

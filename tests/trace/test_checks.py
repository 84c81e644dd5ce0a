from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from simtool.trace.checks.check import Finding, Severity, check_trace
from simtool.trace.frames import make_frame
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace, open_trace, write_trace
from simtool.trace.writer import TraceWriter
from tests.trace.small import small_manifest, small_tables

Change = Callable[[pl.DataFrame], pl.DataFrame]


def _frames() -> dict[str, pl.DataFrame]:
    return {name: make_frame(TABLES[name], columns) for name, columns in small_tables().items()}


def _trace(path: Path, frames: dict[str, pl.DataFrame], **manifest: Any) -> Trace:
    return write_trace(path / "run", small_manifest(**manifest), frames)


def _set(column: str, value: object, **where: object) -> Change:
    """Put a value into the rows where the named columns have the given values."""
    condition = pl.all_horizontal(pl.col(name) == wanted for name, wanted in where.items())

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        new = pl.when(condition).then(pl.lit(value, dtype=frame.schema[column])).otherwise(pl.col(column))
        return frame.with_columns(new.alias(column))

    return change


def _drop(**where: object) -> Change:
    return lambda frame: frame.filter(~pl.all_horizontal(pl.col(name) == value for name, value in where.items()))


def _only_unknown_anchors(findings: list[Finding]) -> bool:
    return [finding.severity for finding in findings] == [Severity.NOTE]


def test_a_sound_trace_has_only_its_unknown_anchors_noted(tmp_path: Path) -> None:
    (finding,) = check_trace(_trace(tmp_path, _frames()))
    assert finding.severity == Severity.NOTE
    assert finding.count == 2
    assert str(finding) == (
        "note: outcomes: anchors of 9 have no known outcome; a replay must substitute where it needs one "
        "(2; first: request_id a, anchor_position 7)"
    )


CASES: list[tuple[str, Change, str]] = [
    ("requests", _set("admitted_ns", -1, request_id="a"), "admitted_ns is before arrival_ns"),
    ("requests", _set("finish_reason", "boredom", request_id="a"), "neither length nor stop"),
    ("requests", _set("finish_reason", None, request_id="a"), "finished without a reason"),
    ("requests", _set("max_new_tokens", 5, request_id="a"), "outside 0..max_new_tokens"),
    ("requests", _set("max_new_tokens", 7, request_id="a"), "finished by length, yet"),
    ("requests", _set("output_tokens", 4, request_id="b"), "output_tokens is not 1"),
    ("requests", _set("prompt_tokens", 6, request_id="b"), "anchor lies in the prompt"),
    ("requests", lambda frame: pl.concat([frame, frame.head(1)]), "two rows with the same request_id"),
    ("requests", _drop(request_id="b"), "its request is not in requests"),
    ("requests", _set("first_token_ns", 94, request_id="a"), "not when a prefill step had read its tokens"),
    ("requests", _set("first_token_ns", 150, request_id="a"), "not when a prefill step had read its tokens"),
    ("requests", _set("admitted_ns", 1, request_id="a"), "was admitted after its prefill started"),
    ("requests", _set("finished_ns", 401, request_id="a"), "not when the step of its last row had read its tokens"),
    ("requests", _set("finished_ns", 300, request_id="a"), "not when the step of its last row had read its tokens"),
    ("requests", _set("arrival_ns", -101, request_id="a"), "waited longer for the next arrival, or the first step"),
    ("steps", _set("kind", "nap", step=1), "kind is none of prefill, decode"),
    ("steps", _set("end_ns", 150, step=2), "ends before it starts"),
    ("steps", _set("start_ns", 150, step=2), "starts before the step before it ends"),
    ("steps", _drop(step=1), "not numbered 0, 1, 2"),
    ("steps", _set("batch", 3, step=1), "batch is not the number of its rows"),
    ("steps", _set("validate_rows", 7, step=1), "validate_rows is not W"),
    ("steps", _set("pruned", True, step=1), "pruned does not say"),
    ("steps", _set("graph_bucket", 1, step=1), "graph_bucket holds fewer rows"),
    ("rows", _set("prefix_len", 3, step=1), "prefix_len is outside 0..SL"),
    ("rows", _set("accepted", 2, step=2), "accepted is outside 0..prefix_len"),
    ("rows", _set("emitted", 3, step=2), "emitted is outside 1..accepted + 1"),
    ("rows", _set("kv_len", 3, step=2), "kv_len is not anchor_position"),
    ("rows", _set("fresh", False, step=2), "without fresh confidence, yet pruned"),
    ("rows", _set("anchor_position", 5, step=2, slot=0), "next anchor is not anchor_position + emitted"),
    ("rows", _set("emitted", 1, step=1, slot=0), "cut short, yet the request goes on"),
    ("rows", _set("step", 0, step=1), "belongs to no decode step"),
    ("rows", _set("slot", 0, step=1), "two rows with the same step, slot"),
    ("rows", _set("request_id", "a", step=1), "two rows with the same step, request_id"),
    ("rows", _set("confidence", [0.5], step=1), "confidence does not hold SL values"),
    ("rows", _set("confidence", [0.5, float("nan")], step=1), "confidence has a value that is no probability"),
    ("rows", _set("draft_prob", [0.5, 1.5], step=1), "draft_prob has a value that is no probability"),
    ("rows", _set("draft_tokens", [7], step=1), "draft_tokens does not hold SL tokens"),
    ("events", _set("lane", "attic", op="target"), "lane is none of"),
    ("events", _set("end_ns", 0, op="target"), "ends before it starts"),
    ("events", _set("bytes", -1, op="target"), "negative number of bytes"),
    ("events", _set("wait_start_ns", 130, op="target"), "waits off the host lane"),
    ("events", _set("wait_start_ns", None, lane="host"), "one end of a wait only"),
    ("events", _set("wait_end_ns", 10_000, op="read_tokens", lane="host"), "its wait is not inside it"),
    ("events", _set("start_ns", 50, step=1, op="target"), "starts before the work before it on its lane ends"),
    ("events", _set("op", "daydream", op="target"), "no op or work of the catalogue"),
    ("events", _set("step", 9, step=3), "belongs to no step"),
    ("events", _set("flow", 30, step=1, op="target"), "ran in another order than it was launched"),
    ("events", _set("flow", 10, step=1), "two host ops share a flow"),
    ("events", _set("start_ns", 125, step=1, op="read_tokens", lane="host"), "leaves a gap"),
    ("events", _set("end_ns", 205, step=1, op="read_tokens", lane="host"), "lies outside its step"),
    ("events", _set("flow", 15, step=1, op="target"), "no host op launched it"),
    ("events", _set("start_ns", 95, step=1, op="target"), "starts before the op that launched it"),
    ("outcomes", _set("source", "guessed", anchor_position=7), "source is none of"),
    ("outcomes", _set("match_run", 3, anchor_position=7), "match_run is outside 0..SL"),
    ("outcomes", _set("confidence", [], anchor_position=7), "confidence does not hold SL values"),
    ("outcomes", _set("match_run", 0, anchor_position=7), "of its visited outcome"),
    ("outcomes", lambda frame: pl.concat([frame, frame.head(1)]), "two rows with the same request_id, anchor_position"),
]


@pytest.mark.parametrize(("table", "change", "message"), CASES, ids=[f"{table}-{text}" for table, _, text in CASES])
def test_each_broken_invariant_is_found(tmp_path: Path, table: str, change: Change, message: str) -> None:
    frames = _frames()
    frames[table] = change(frames[table])
    findings = check_trace(_trace(tmp_path, frames))
    found, *_ = [finding for finding in findings if message in finding.message]
    assert found.count >= 1
    assert found.first


def test_a_request_is_admitted_after_the_step_before_its_prefill(tmp_path: Path) -> None:
    frames = _frames()
    frames["steps"] = _set("kind", "prefill", step=1)(frames["steps"])
    for admitted_ns, found in ((100, False), (99, True)):
        change = _set("first_token_ns", 200, request_id="a")(frames["requests"])
        frames["requests"] = _set("admitted_ns", admitted_ns, request_id="a")(change)
        findings = check_trace(_trace(tmp_path / str(admitted_ns), frames))
        messages = [finding.message for finding in findings if finding.table == "requests"]
        assert messages == ["was admitted before the step before its prefill ended"] * found


def test_a_request_still_running_has_no_times_to_judge(tmp_path: Path) -> None:
    frames = _frames()
    waiting = {"admitted_ns": None, "first_token_ns": None, "finished_ns": None, "finish_reason": None}
    for column, value in waiting.items():
        frames["requests"] = _set(column, value, request_id="a")(frames["requests"])
    assert _only_unknown_anchors(check_trace(_trace(tmp_path, frames)))


def test_a_filled_outcome_that_disagrees_is_a_warning(tmp_path: Path) -> None:
    frames = _frames()
    frames["outcomes"] = _set("source", "filled", source="visited")(frames["outcomes"])
    frames["outcomes"] = _set("match_run", 0, anchor_position=7)(frames["outcomes"])
    assert check_trace(_trace(tmp_path, frames))[0].severity == Severity.WARNING


def test_a_visited_outcome_whose_match_run_is_unknown_says_nothing(tmp_path: Path) -> None:
    """A replay of the trace verifies more there, and accepts what the filled outcome of that anchor says."""
    frames = _frames()
    frames["outcomes"] = _set("match_run", None, request_id="a", anchor_position=4)(frames["outcomes"])
    assert _only_unknown_anchors(check_trace(_trace(tmp_path, frames)))


def test_under_sampling_outcomes_need_not_agree(tmp_path: Path) -> None:
    frames = _frames()
    frames["outcomes"] = _set("match_run", 0, anchor_position=7)(frames["outcomes"])
    assert _only_unknown_anchors(check_trace(_trace(tmp_path, frames, sampling={"temperature": 0.7})))
    matched = _trace(tmp_path / "m", frames, sampling={"temperature": 0.7, "accept": "match"})
    assert check_trace(matched)[0].severity == Severity.ERROR


def test_an_import_is_held_to_less(tmp_path: Path) -> None:
    events = _set("op", "aten::mm", lane="compute")(_frames()["events"])
    trace = _trace(tmp_path, {"events": events}, origin="imported", placement=None, sl=0)
    assert check_trace(trace) == []


def test_requests_that_were_running_when_the_writer_was_stopped_are_no_fault(tmp_path: Path) -> None:
    frames = _frames()
    frames["requests"] = frames["requests"].filter(pl.col("request_id") != "b")
    assert check_trace(_trace(tmp_path, frames))[0].message == "its request is not in requests"
    writer = TraceWriter(tmp_path / "killed", small_manifest())
    for name, frame in frames.items():
        writer.append(name, frame.to_dict(as_series=False))
    writer.flush()
    writer.abandon()
    findings = check_trace(open_trace(writer.path))
    assert [finding.severity for finding in findings] == [Severity.WARNING, Severity.NOTE, Severity.NOTE]
    assert "up to its last flush" in findings[0].message
    assert "still running when the writer was stopped" in findings[1].message


def test_an_incomplete_or_unreadable_trace_says_so(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "run", small_manifest())
    writer.abandon("the disk was full")
    assert [finding.message for finding in check_trace(open_trace(writer.path))] == [
        "the writer was stopped before it had written a row; record it again",
        "the disk was full",
    ]
    (writer.path / "rows.parquet").write_bytes(b"gone")
    findings = check_trace(open_trace(writer.path))
    assert (findings[0].severity, findings[0].table) == (Severity.ERROR, "rows")

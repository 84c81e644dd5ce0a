"""Decode steps of serving engines, and rule files that name their ops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simtool.errors import TraceError
from simtool.step.ops import CATALOGUE
from simtool.trace.checks.check import check_trace
from simtool.trace.importers.to_events.mapping import Choices
from simtool.trace.importers.to_events.rules import Named, load_rules, shipped_rules
from tests.trace.importers.kineto_file import call, kernel, read, read_with, rows, span


def _annotated(*names: str) -> list[dict[str, Any]]:
    """A launch of one kernel inside each annotation, 100 us apart."""
    events = []
    for i, name in enumerate(names):
        events.append(span("user_annotation", name, 100 * i, 60))
        events.append(call("cudaGraphLaunch", 100 * i + 5, 10, i + 1))
        events.append(kernel("k", 100 * i + 20, 50, i + 1))
    return events


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("execute_context_0(0)_generation_8(40)", ("decode", 8, 40)),
        ("execute_context_2(1024)_generation_3(3)", ("prefill", 5, 1027)),
        ("execute_context_0()_generation_8()", ("decode", 8, None)),
        ("execute_new_0_cached_7", ("decode", 7, None)),
        ("step[DECODE bs=64 g_sqsq=64]", ("decode", 64, None)),
        ("step[decode bs=16]", ("decode", 16, None)),
        ("step[EXTEND bs=1 toks=1025]", ("prefill", 1, None)),
        ("step[TARGET_VERIFY bs=4]", ("decode", 4, None)),
    ],
)
def test_what_an_annotation_says_of_its_step(tmp_path: Path, name: str, said: tuple[object, ...]) -> None:
    imported = read(tmp_path, _annotated(name, name))
    assert imported.frames["steps"].select("kind", "batch", "validate_rows").rows() == [said, said]
    assert check_trace(imported.write(tmp_path / "trace")) == []


def test_drafting_forwards_are_no_steps_of_their_own(tmp_path: Path) -> None:
    names = ["step[DECODE bs=4]", "step[DECODE bs=4]", "step[TARGET_VERIFY bs=4]"] * 2
    imported = read(tmp_path, _annotated(*names))
    assert (imported.frames["steps"]["start_ns"].diff().drop_nulls() // 1000).to_list() == [300]


def test_idle_steps_are_none(tmp_path: Path) -> None:
    assert read(tmp_path, _annotated("step[decode bs=2]", "step[idle]")).frames["steps"].height == 1


def test_an_engines_annotations_go_before_the_profilers_marks(tmp_path: Path) -> None:
    events = [span("user_annotation", "ProfilerStep#5", 0, 300), *_annotated("step[decode bs=2]", "step[decode bs=2]")]
    imported = read(tmp_path, events)
    assert imported.frames["steps"]["step"].to_list() == [0, 1]
    assert read(tmp_path, events[:3]).frames["steps"].height == 1


def test_steps_of_graph_launches_begin_behind_a_wait(tmp_path: Path) -> None:
    """Two pieces of a graph a step, then a wait for the tokens."""
    events = []
    for i in range(3):
        at = 1000 * i
        events += [call("cudaGraphLaunch", at, 10, 10 * i + 1), call("cudaGraphLaunch", at + 20, 10, 10 * i + 2)]
        events += [kernel("a", at + 30, 100, 10 * i + 1), kernel("b", at + 130, 100, 10 * i + 2)]
        events += [call("cudaStreamSynchronize", at + 40, 200, 10 * i + 3)]
    imported = read(tmp_path, events)
    assert imported.manifest.details["steps"] == {"from": "graph launches", "marks": 3, "events_outside_a_mark": 0}
    assert sorted(set(rows(imported, "step", "op"))) == [
        (n, op) for n in range(3) for op in ("a", "b", "cudaGraphLaunch", "cudaStreamSynchronize")
    ]


def test_a_marker_chooses_the_steps(tmp_path: Path) -> None:
    events = [*_annotated("my_step 7", "other", "my_step 8"), span("user_annotation", "ProfilerStep#5", 0, 300)]
    by_range = read_with(tmp_path, Choices(step_marker=r"^my_step \d"), events)
    assert (by_range.frames["steps"]["end_ns"] - by_range.frames["steps"]["start_ns"]).to_list() == [200_000, 200_000]
    by_call = read_with(tmp_path, Choices(step_marker="GraphLaunch$"), events)
    assert by_call.frames["steps"].height == 3
    with pytest.raises(TraceError, match="no host call; annotations are, for example, my_step 7"):
        read_with(tmp_path, Choices(step_marker="nothing"), events)
    with pytest.raises(TraceError, match="is no regular expression"):
        read_with(tmp_path, Choices(step_marker="("), events)


_RULES = """
engine = "toy"
[[rule]]
on = "range"
match = "^forward$"
op = "launch_target"
[[rule]]
on = "range"
match = "^bookkeep$"
op = "read_tokens"
[[rule]]
on = "work"
match = "^reject"
op = "verify"
"""


def _toy_rules(tmp_path: Path, text: str = _RULES) -> Path:
    (tmp_path / "rules.toml").write_text(text)
    return tmp_path / "rules.toml"


def test_rules_name_ranges_calls_and_work(tmp_path: Path) -> None:
    events = [
        span("user_annotation", "forward", 0, 50),
        call("cudaLaunchKernel", 5, 5, 1),
        call("cudaLaunchKernel", 15, 5, 2),
        kernel("gemm", 12, 30, 1),
        kernel("rejection_sample", 50, 10, 2),
        span("user_annotation", "bookkeep", 60, 40),
        call("cudaMemcpyAsync", 61, 3, 3),
        span("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 70, 5, 0, 9, device=0, stream=9, correlation=3, bytes=64),
        call("cudaStreamSynchronize", 65, 30, 4),
        call("cudaEventQuery", 110, 2, 5),
        kernel("stray", 120, 5, 0),
    ]
    imported = read_with(tmp_path, Choices(rules=load_rules(str(_toy_rules(tmp_path)))), events)
    assert rows(imported, "lane", "op", "source", "start_ns", "end_ns", "wait_end_ns") == [
        ("host", "launch_target", "forward", 0, 50, None),
        ("compute", "target", "gemm", 12, 42, None),
        ("compute", "verify", "rejection_sample", 50, 60, None),
        ("host", "read_tokens", "bookkeep", 60, 100, 95),
        ("copy", "read_tokens", "Memcpy DtoH (Device -> Pinned)", 70, 75, None),
        ("host", "other", "cudaEventQuery", 110, 112, None),
        ("compute", "other", "stray", 120, 125, None),
    ]
    assert imported.manifest.details["ops"] == {
        "rules": str(tmp_path / "rules.toml"),
        "named": {"read_tokens": 2, "launch_target": 1, "target": 1, "verify": 1},
        "other": 2,
        "other_names": {"cudaEventQuery": 1, "stray": 1},
        "other_names_not_shown": 0,
    }
    assert check_trace(imported.write(tmp_path / "trace")) == []


@pytest.mark.parametrize("name", shipped_rules())
def test_shipped_rules_are_sound(name: str) -> None:
    rules = load_rules(name)
    assert {rule.op for rule in rules.rules if rule.on is not Named.WORK} <= set(CATALOGUE)


def test_names_of_ops_need_no_rule(tmp_path: Path) -> None:
    events = [span("user_annotation", "decide", 0, 9), span("user_annotation", "launch_target", 10, 9)]
    events += [call("cudaGraphLaunch", 12, 4, 1), kernel("k", 30, 5, 1)]
    imported = read_with(tmp_path, Choices(rules=load_rules("xllm")), events)
    assert rows(imported, "op") == [("decide",), ("launch_target",), ("target",)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rule = 3", r"has no \[\[rule\]\]"),
        ("x = [", "not TOML"),
        ("engine = 'e'\nrules = []", "unknown key 'rules'"),
        ("[[rule]]\non='range'\nmatch='a'", "rule 1: expected exactly the keys on, match and op"),
        ("[[rule]]\non='kernel'\nmatch='a'\nop='decide'", "on is 'kernel'; expected one of range, call, work"),
        ("[[rule]]\non='range'\nmatch='('\nop='decide'", "match is no regular expression"),
        ("[[rule]]\non='range'\nmatch='a'\nop='target'", "op is 'target'; expected other or one of schedule"),
    ],
)
def test_unsound_rules_are_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        load_rules(str(_toy_rules(tmp_path, text)))


def test_rules_that_are_nowhere_are_refused_with_those_that_ship() -> None:
    with pytest.raises(TraceError, match="these do: sglang, vllm, vllm_ascend, xllm"):
        load_rules("nowhere.toml")


def test_a_device_can_be_chosen(tmp_path: Path) -> None:
    events = [kernel("a", 1, 1, 0, device=0), kernel("b", 1, 1, 0, device=1), kernel("c", 5, 1, 0, device=1)]
    assert rows(read_with(tmp_path, Choices(device="device 0"), events), "op") == [("a",)]
    with pytest.raises(TraceError, match="no device 'device 7' in this trace; expected one of 'device 0', 'device 1'"):
        read_with(tmp_path, Choices(device="device 7"), events)

"""A step log -> the tables of a trace: steps, rows, outcomes, requests, and the host ops that the log timed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from simtool.step.ops import Lane
from simtool.trace.frames import make_frame
from simtool.trace.importers.step_log.lines import LoggedStep
from simtool.trace.importers.step_log.outcomes import visited_outcomes
from simtool.trace.importers.step_log.read import StepLog
from simtool.trace.importers.step_log.requests import requests_frame
from simtool.trace.importers.step_log.tidy import tidy_ops
from simtool.trace.schema import TABLES


@dataclass(frozen=True)
class LogTables:
    """frames: of a trace, steps numbered from 0. numbers: the log's own number of each. notes: to be told."""

    frames: Mapping[str, pl.DataFrame]
    numbers: Sequence[int]
    details: Mapping[str, object]
    notes: Sequence[str]


def log_tables(log: StepLog) -> LogTables:
    """Turn the lines into tables; what does not follow from one line to the next goes into the log's ledger."""
    spans, overlapping = _spans(log.steps)
    _check_anchors(log)
    requests, told = requests_frame(log, spans)
    outcomes, substituted = visited_outcomes(log)
    mixed = sum(bool(step.prefilled) and step.kind == "decode" for step in log.steps)
    details = {
        "steps": {"from": "the step log", "logged": len(log.steps), "resumed": log.resumed},
        "overlapping_steps": overlapping,
        "mixed_steps": mixed,
    }
    steps = _steps(log, spans)
    frames = {
        "requests": requests,
        "steps": steps,
        "rows": _rows(log),
        "events": tidy_ops(_events(log.steps), steps.filter(pl.col("kind") == "prefill")["step"]),
        "outcomes": outcomes,
    }
    notes = [*told, *_notes(log, overlapping, mixed, substituted)]
    return LogTables(frames, [step.step for step in log.steps], details, notes)


def _notes(log: StepLog, overlapping: int, mixed: int, substituted: int) -> list[str]:
    notes = list(log.notes)
    if log.cut:
        notes.append("the last line is cut off: the writer was stopped; everything before it is used")
    if overlapping:
        notes.append(f"{overlapping} steps began before the one before ended; their starts were moved to that end")
    if mixed:
        notes.append(f"{mixed} decode steps also ended a prompt, so their time holds prefill work")
    if substituted:
        notes.append(
            f"{substituted} rows have no confidence: each draft position stands at its acceptance rate over the log, "
            "so a controller cannot tell these sequences apart"
        )
    if log.header.temperature is None:
        notes.append("the log does not say its temperature: a replay takes it as greedy")
    return notes


def _spans(steps: Sequence[LoggedStep]) -> tuple[list[tuple[int, int]], int]:
    """Start and end of each step, none before the end of the one before: an engine may schedule ahead."""
    spans: list[tuple[int, int]] = []
    overlapping, before_ns = 0, steps[0].start_ns
    for step in steps:
        overlapping += step.start_ns < before_ns
        start_ns = max(step.start_ns, before_ns)
        spans.append((start_ns, max(step.end_ns, start_ns)))
        before_ns = spans[-1][1]
    return spans, overlapping


def _check_anchors(log: StepLog) -> None:
    """Every anchor follows from the one before; a gap is a lost line, or a writer's fault, and is told."""
    seen: dict[str, list[tuple[int, int, int]]] = {}
    for step in log.steps:
        for name, anchor, emitted in zip(step.request, step.anchor, step.emitted, strict=False):
            seen.setdefault(name, []).append((anchor, emitted, step.step))
    for name, rows in seen.items():
        for (anchor, emitted, _), (following, _, number) in pairwise(rows):
            if following != anchor + emitted:
                what = f"request {name}, step {number}: anchor {following}, expected {anchor + emitted}"
                log.ledger.reject("anchor does not follow from the step before (a line is lost)", what)


def _steps(log: StepLog, spans: Sequence[tuple[int, int]]) -> pl.DataFrame:
    steps, sl = log.steps, log.header.sl
    return make_frame(
        TABLES["steps"],
        {
            "step": list(range(len(steps))),
            "kind": [step.kind for step in steps],
            "start_ns": [start_ns for start_ns, _ in spans],
            "end_ns": [end_ns for _, end_ns in spans],
            "batch": [len(step.request) for step in steps],
            "validate_rows": [
                sum(step.prompt_tokens) if step.kind == "prefill" else sum(step.prefix_len) + len(step.request)
                for step in steps
            ],
            "pruned": [step.kind == "decode" and any(length < sl for length in step.prefix_len) for step in steps],
            "placement": [log.header.placement or log.header.engine] * len(steps),
            "graph_bucket": [step.graph_bucket for step in steps],
        },
    )


def _rows(log: StepLog) -> pl.DataFrame:
    columns: dict[str, list[object]] = {column.name: [] for column in TABLES["rows"].columns}
    for number, step in enumerate(log.steps):
        if step.kind == "prefill":
            continue
        count = len(step.request)
        nothing: list[None] = [None] * count
        own: dict[str, Sequence[object]] = {
            "step": [number] * count,
            "request_id": step.request,
            "slot": step.slot if step.slot is not None else list(range(count)),
            "anchor_position": step.anchor,
            "kv_len": step.anchor,
            "confidence": step.confidence or nothing,
            "draft_prob": step.draft_prob or nothing,
            "draft_tokens": step.draft_tokens or nothing,
            "prefix_len": step.prefix_len,
            "accepted": step.accepted,
            "emitted": step.emitted,
            "fresh": step.fresh if step.fresh is not None else [True] * count,
        }
        for name, values in own.items():
            columns[name].extend(values)
    return make_frame(TABLES["rows"], columns)


def _events(steps: Sequence[LoggedStep]) -> pl.DataFrame:
    """The host ops that the log timed, in order of time; nothing of the device."""
    ops = sorted((op[1], op[2], number, *op) for number, step in enumerate(steps) for op in step.ops)
    return make_frame(
        TABLES["events"],
        {
            "step": [op[2] for op in ops],
            "op": [op[3] for op in ops],
            "lane": [Lane.HOST.value] * len(ops),
            "start_ns": [op[4] for op in ops],
            "end_ns": [op[5] for op in ops],
            "wait_start_ns": [op[6] for op in ops],
            "wait_end_ns": [op[7] for op in ops],
            "flow": list(range(1, len(ops) + 1)),
            "bytes": [0] * len(ops),
        },
    )

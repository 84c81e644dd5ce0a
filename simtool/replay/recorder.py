"""What a replay leaves behind: the same five tables as a live recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from simtool.replay.step_planner import StepPlan
from simtool.step.ops import Lane
from simtool.trace.frames import make_frame, sort_frame
from simtool.trace.schema import TABLES


@dataclass
class HostEvent:
    """One host op; times in ns. The waits stay None when it does not block."""

    name: str
    flow: int
    start_ns: int
    end_ns: int = 0
    wait_start_ns: int | None = None
    wait_end_ns: int | None = None


@dataclass
class WorkEvent:
    """One piece of device work; times in ns."""

    name: str
    lane: str
    flow: int
    start_ns: int = 0
    end_ns: int = 0


@dataclass
class RequestTimes:
    """A request's times in ns; None until they come."""

    arrival_ns: int
    admitted_ns: int | None = None
    first_token_ns: int | None = None
    finished_ns: int | None = None


@dataclass
class ReplayRecorder:
    """Collects events and steps. placement: its name. requests: by id."""

    placement: str
    requests: dict[str, RequestTimes]
    _steps: list[dict[str, Any]] = field(default_factory=list)
    _rows: list[dict[str, Any]] = field(default_factory=list)
    _events: list[dict[str, Any]] = field(default_factory=list)
    _hosts: list[HostEvent] = field(default_factory=list)
    _works: list[WorkEvent] = field(default_factory=list)
    _step_of_flow: dict[int, int] = field(default_factory=dict)

    def add_host(self, event: HostEvent) -> None:
        """Keep a host op of the step under way."""
        self._hosts.append(event)

    def add_work(self, event: WorkEvent) -> None:
        """Keep device work that is done, perhaps after the step that launched it."""
        self._works.append(event)

    def add_step(self, plan: StepPlan, start_ns: int, end_ns: int, finished: Sequence[str]) -> None:
        """Close the step under way. finished: ids of the requests that got their last token in it."""
        step = len(self._steps)
        tokens_ns = next(host.wait_end_ns for host in self._hosts if host.name == "read_tokens")
        for sequence in plan.admitted:
            times = self.requests[sequence.request.request_id]
            times.admitted_ns, times.first_token_ns = start_ns, tokens_ns
        for request_id in finished:
            self.requests[request_id].finished_ns = tokens_ns
        for host in self._hosts:
            self._step_of_flow[host.flow] = step
            self._events.append(_host_row(step, host))
        self._hosts = []
        self._steps.append(
            {
                "step": step,
                "kind": plan.kind,
                "start_ns": start_ns,
                "end_ns": end_ns,
                "batch": len(plan.sequences),
                "validate_rows": plan.validate_rows,
                "pruned": plan.pruned,
                "placement": self.placement,
                "graph_bucket": plan.graph_bucket,
            }
        )
        self._rows.extend(_decode_rows(step, plan))

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Return steps, rows and events in the schema; requests and outcomes belong to the source."""
        works = [_work_row(self._step_of_flow[work.flow], work) for work in self._works]
        lists = {"steps": self._steps, "rows": self._rows, "events": [*self._events, *works]}
        return {name: _frame(name, rows) for name, rows in lists.items()}


def _frame(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    columns = rows[0] if rows else TABLES[name].polars_schema
    frame = make_frame(TABLES[name], {column: [row[column] for row in rows] for column in columns})
    return sort_frame(TABLES[name], frame)


def _host_row(step: int, host: HostEvent) -> dict[str, Any]:
    return {
        "step": step,
        "op": host.name,
        "lane": Lane.HOST.value,
        "start_ns": host.start_ns,
        "end_ns": host.end_ns,
        "wait_start_ns": host.wait_start_ns,
        "wait_end_ns": host.wait_end_ns,
        "flow": host.flow,
        "bytes": 0,
    }


def _work_row(step: int, work: WorkEvent) -> dict[str, Any]:
    return {
        "step": step,
        "op": work.name,
        "lane": work.lane,
        "start_ns": work.start_ns,
        "end_ns": work.end_ns,
        "wait_start_ns": None,
        "wait_end_ns": None,
        "flow": work.flow,
        "bytes": 0,
    }


def _decode_rows(step: int, plan: StepPlan) -> list[dict[str, Any]]:
    return [
        {
            "step": step,
            "request_id": row.sequence.request.request_id,
            "slot": row.sequence.slot,
            "anchor_position": row.position,
            "kv_len": row.position,
            "confidence": row.outcome.confidence,
            "draft_prob": row.outcome.draft_prob,
            "prefix_len": row.prefix_len,
            "accepted": row.accepted,
            "emitted": row.emitted,
            "fresh": row.fresh,
        }
        for row in plan.rows
    ]

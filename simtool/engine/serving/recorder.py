"""What a live run leaves behind: events, steps, rows, requests and outcomes, written as it goes.

One time stamp closes an op and opens the next, so the host's ops tile the step and nothing falls between them.
Inside a step the recorder does nothing but stamp: what it observes, and when device work ran, is read once the step is
closed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from simtool.engine.devices.protocol import WorkTiming
from simtool.step.ops import Lane, Op
from simtool.step.placement import Placement
from simtool.step.scheduler import ActiveRequest
from simtool.trace.writer import TraceWriter
from simtool.units import NS_PER_S

_FLUSH_EVERY_NS = 5 * NS_PER_S
_DRAFTS = "draft_tokens"
_CONFIDENCES = ("confidence", "draft_prob")
_MARGIN = "verify_margin"


class StepFacts(Protocol):
    """The parts of a finished step that are recorded (see worker.StepState)."""

    index: int
    prefill: bool
    sequences: list[ActiveRequest]
    positions: list[int]
    confidence: list[Sequence[float] | None]
    prefix_lens: list[int]
    pruned: bool
    cu_rows: list[int]
    emitted: list[list[int]]
    accepted: list[int]
    graph_bucket: int | None
    observed: Mapping[str, Any]


class Recorder:
    """The silent recorder: gives flow ids and keeps nothing. What a run costs without a recording.

    observes, observes_prefill: device outputs that are read after a decode or prefill step; observes_behind: those that
    go by another name once the step has launched for the next. times_work: whether device work is timed.
    """

    observes: tuple[str, ...] = ()
    observes_prefill: tuple[str, ...] = ()
    observes_behind: tuple[str, ...] = ()
    times_work = False

    def __init__(self, now_ns: Callable[[], int]) -> None:
        """`now_ns`: the run's clock, which is the device's."""
        self.now_ns = now_ns
        self._flow = 0

    def begin_op(self, op: Op) -> int:
        """Close the op before, open this one, and return its flow id."""
        self._flow += 1
        return self._flow

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The host waits for the device in here."""
        yield

    def close_step(self) -> None:
        """Close the step's last op; nothing that follows is the step's."""

    def end_step(self, s: StepFacts, timings: Sequence[WorkTiming]) -> None:
        """Keep when the step's work ran."""

    def end_rows(self, s: StepFacts) -> None:
        """Keep what the step did, once it is observed: steps come here in their order."""

    def end_request(self, request: RequestFacts) -> None:
        """Keep a request that is finished."""

    def close(self, timings: Sequence[WorkTiming]) -> None:
        """Take the last device timings; the run is over."""


@dataclass
class RequestFacts:
    """What is known of one request at its end. Times in ns on the run's clock; ids are token ids."""

    request_id: str
    kind: str
    max_new_tokens: int
    prompt_ids: list[int]
    arrival_ns: int
    admitted_ns: int = 0
    first_token_ns: int = 0
    finished_ns: int = 0
    output_ids: list[int] = field(default_factory=list)
    finish_reason: str = ""


@dataclass
class _Visit:
    anchor_position: int
    confidence: list[float]
    draft_prob: list[float]
    draft_tokens: list[int]
    prefix_len: int
    accepted: int


@dataclass
class _OpenOp:
    name: str
    start_ns: int
    flow: int
    wait_start_ns: int | None = None
    wait_end_ns: int | None = None


class TraceRecorder(Recorder):
    """Writes a trace. Flushes between steps every few seconds, so a killed run keeps all but the last of it."""

    times_work = True

    def __init__(
        self, now_ns: Callable[[], int], writer: TraceWriter, placement: Placement, *, settled: bool = True
    ) -> None:
        """`settled`: a token is the likeliest of its place, so its gap counts, and tokens tell what a prune hid."""
        super().__init__(now_ns)
        self._confident = placement.gives("confidence")
        self.observes_prefill = (_MARGIN,) if settled else ()
        self.observes_behind = (_DRAFTS, *(_CONFIDENCES if self._confident else ()))
        self.observes = (*self.observes_behind, *self.observes_prefill)
        self._writer, self._placement, self._settled = writer, placement.name, settled
        self._open: _OpenOp | None = None
        self._ops: list[tuple[_OpenOp, int]] = []
        self._first_flows: list[int] = []
        self._steps: list[int] = []
        self._visits: dict[str, list[_Visit]] = {}
        self._margins: dict[str, list[float]] = {}
        self._flushed_ns = self.now_ns()

    def begin_op(self, op: Op) -> int:
        """Close the op before, open this one, and return its flow id."""
        flow = super().begin_op(op)
        now = self.now_ns()
        self._shut(now)
        self._open = _OpenOp(op.name, now, flow)
        return flow

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Stamp the wait onto the open op."""
        op = self._open
        assert op is not None, "the worker opens an op before it waits"
        op.wait_start_ns = self.now_ns()
        yield
        op.wait_end_ns = self.now_ns()

    def end_step(self, s: StepFacts, timings: Sequence[WorkTiming]) -> None:
        """Append the step's events and its row in `steps`."""
        ops, self._ops = self._ops, []
        self._first_flows.append(ops[0][0].flow)
        self._steps.append(s.index)
        self._append_host(s.index, ops)
        self._append_device(timings)
        self._append_step(s, ops)

    def end_rows(self, s: StepFacts) -> None:
        """Append a row a sequence."""
        if not s.prefill:
            self._append_rows(s)
        if self._settled:
            self._keep_margins(s)
        if self.now_ns() - self._flushed_ns > _FLUSH_EVERY_NS:
            self._writer.flush()
            self._flushed_ns = self.now_ns()

    def close_step(self) -> None:
        """Close the step's last op."""
        self._shut(self.now_ns())

    def end_request(self, request: RequestFacts) -> None:
        """Append the request and the outcomes of the anchors that it visited."""
        columns = vars(request) | {
            "prompt_tokens": len(request.prompt_ids),
            "output_tokens": len(request.output_ids),
            "output_margin": self._margins.pop(request.request_id) if self._settled else None,
        }
        self._writer.append("requests", {name: [value] for name, value in columns.items()})
        visits = self._visits.pop(request.request_id, [])
        tokens = request.prompt_ids + request.output_ids
        self._writer.append(
            "outcomes",
            {
                "request_id": [request.request_id] * len(visits),
                "anchor_position": [visit.anchor_position for visit in visits],
                "confidence": [visit.confidence for visit in visits],
                "draft_prob": [visit.draft_prob for visit in visits],
                "match_run": [_match_run(visit, tokens if self._settled else []) for visit in visits],
                "source": ["visited"] * len(visits),
            },
        )

    def close(self, timings: Sequence[WorkTiming]) -> None:
        """Append device work that finished after its step, and flush."""
        self._append_device(timings)
        self._writer.flush()

    def _shut(self, now_ns: int) -> None:
        if self._open is not None:
            self._ops.append((self._open, now_ns))
            self._open = None

    def _append_host(self, step: int, ops: list[tuple[_OpenOp, int]]) -> None:
        self._writer.append(
            "events",
            {
                "step": [step] * len(ops),
                "op": [op.name for op, _ in ops],
                "lane": [Lane.HOST.value] * len(ops),
                "start_ns": [op.start_ns for op, _ in ops],
                "end_ns": [end_ns for _, end_ns in ops],
                "wait_start_ns": [op.wait_start_ns for op, _ in ops],
                "wait_end_ns": [op.wait_end_ns for op, _ in ops],
                "flow": [op.flow for op, _ in ops],
                "bytes": [0] * len(ops),
            },
        )

    def _append_device(self, timings: Sequence[WorkTiming]) -> None:
        nothing = [None] * len(timings)
        self._writer.append(
            "events",
            {
                "step": [self._steps[bisect_right(self._first_flows, work.flow) - 1] for work in timings],
                "op": [work.work for work in timings],
                "lane": [work.lane.value for work in timings],
                "start_ns": [work.start_ns for work in timings],
                "end_ns": [work.end_ns for work in timings],
                "wait_start_ns": nothing,
                "wait_end_ns": nothing,
                "flow": [work.flow for work in timings],
                "bytes": [work.bytes for work in timings],
            },
        )

    def _append_step(self, s: StepFacts, ops: list[tuple[_OpenOp, int]]) -> None:
        self._writer.append(
            "steps",
            {
                "step": [s.index],
                "kind": ["prefill" if s.prefill else "decode"],
                "start_ns": [ops[0][0].start_ns],
                "end_ns": [ops[-1][1]],
                "batch": [len(s.sequences)],
                "validate_rows": [s.cu_rows[-1]],
                "pruned": [s.pruned],
                "placement": [self._placement],
                "graph_bucket": [s.graph_bucket],
            },
        )

    def _append_rows(self, s: StepFacts) -> None:
        confidence, draft_prob = (self._observed(s, name) for name in _CONFIDENCES)
        draft_tokens = s.observed[_DRAFTS].tolist()
        request_ids = [sequence.request.request_id for sequence in s.sequences]
        self._writer.append(
            "rows",
            {
                "step": [s.index] * len(request_ids),
                "request_id": request_ids,
                "slot": [sequence.slot for sequence in s.sequences],
                "anchor_position": list(s.positions),
                "kv_len": list(s.positions),
                "confidence": confidence,
                "draft_prob": draft_prob,
                "draft_tokens": draft_tokens,
                "prefix_len": list(s.prefix_lens),
                "accepted": list(s.accepted),
                "emitted": [len(tokens) for tokens in s.emitted],
                "fresh": [values is not None for values in s.confidence],
            },
        )
        if not self._confident:  # an outcome is nothing without; `fill` finds all of them
            return
        for i, request_id in enumerate(request_ids):
            visit = _Visit(
                anchor_position=s.positions[i],
                confidence=confidence[i],
                draft_prob=draft_prob[i],
                draft_tokens=draft_tokens[i],
                prefix_len=s.prefix_lens[i],
                accepted=s.accepted[i],
            )
            self._visits.setdefault(request_id, []).append(visit)

    def _observed(self, s: StepFacts, name: str) -> list[Any]:
        """An output of each sequence; None where this placement's steps do not compute it."""
        return list(s.observed[name].tolist()) if self._confident else [None] * len(s.sequences)

    def _keep_margins(self, s: StepFacts) -> None:
        for sequence, emitted, margins in zip(s.sequences, s.emitted, s.observed[_MARGIN].tolist(), strict=True):
            self._margins.setdefault(sequence.request.request_id, []).extend(margins[: len(emitted)])


def _match_run(visit: _Visit, tokens: list[int]) -> int | None:
    """The match run at a visited anchor, or None where the output ends before the answer shows.

    A pruned verify sees only part of the block; the tokens that the target went on to emit tell the rest, unless
    they depend on what was drafted.
    """
    if visit.accepted < visit.prefix_len or visit.prefix_len == len(visit.draft_tokens):
        return visit.accepted
    following = tokens[visit.anchor_position + 1 :]
    for k, draft in enumerate(visit.draft_tokens):
        if k >= len(following):
            return None
        if draft != following[k]:
            return k
    return len(visit.draft_tokens)

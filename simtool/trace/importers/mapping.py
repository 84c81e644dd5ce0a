"""Foreign host calls and device work -> the `events` table, with every choice of the mapping told.

The trace's four lanes are one host thread and three streams. A foreign trace may have more of each, so:
- host is the one thread that launches most device work, without other threads and without calls inside another call;
- a stream goes to one lane whole: to `copy` or `prepare` when it only copies (mostly to, or from, the host), else to
  `compute`. The caller may say otherwise for any stream. Streams that share a lane may overlap: that is counted;
- flows are numbered anew, host calls first in order of time; device work without a known launch has its own number.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import polars as pl

from simtool.errors import TraceError
from simtool.step.ops import Lane
from simtool.trace.frames import make_frame
from simtool.trace.importers.ledger import Ledger
from simtool.trace.importers.timeline import HostCall, ProfiledWork, StepMark, Timeline, WorkKind
from simtool.trace.schema import TABLES

#: The rule above for every stream.
NO_LANES: Mapping[str, Lane] = MappingProxyType({})


@dataclass(frozen=True)
class Mapped:
    """The `events` table and what was decided on the way, for a manifest's details and warnings."""

    events: pl.DataFrame
    details: dict[str, object]
    warnings: list[str]


def map_timeline(timeline: Timeline, ledger: Ledger, lanes: Mapping[str, Lane]) -> Mapped:
    """Map a timeline to events. lanes: stream -> lane where the caller knows better than the rule.

    Raises TraceError when `lanes` names a stream that is not there.
    """
    thread = _busiest_thread(timeline)
    calls, flow_of = _outermost([call for call in timeline.calls if call.thread == thread], ledger)
    ledger.drop("host calls on other threads", sum(call.thread != thread for call in timeline.calls))
    works = sorted(timeline.works, key=lambda work: (work.span_ns, work.stream))
    chosen = _choose_lanes(works, lanes)
    flows = [flow_of.get(work.link, len(calls) + 1 + i) for i, work in enumerate(works)]
    steps = _Steps(timeline.marks)
    events = _events(calls, works, chosen, flows, steps)
    overlaps = _overlaps(events)
    details: dict[str, object] = {
        "host_thread": thread,
        "lanes": _tell_lanes(works, chosen),
        "overlapping_events": overlaps,
        "device_work_without_launch": sum(flow > len(calls) for flow in flows),
        "steps": steps.tell(),
        **ledger.to_dict(),
    }
    warnings = [f"{n} events on lane {lane} overlap the one before (see details.lanes)" for lane, n in overlaps.items()]
    return Mapped(events, details, [*ledger.warnings(), *warnings])


def _events(
    calls: Sequence[HostCall],
    works: Sequence[ProfiledWork],
    lanes: Mapping[str, Lane],
    flows: Sequence[int],
    steps: _Steps,
) -> pl.DataFrame:
    """The events table. Work is of its launch's step where the launch is known, else of the step of its time."""
    call_steps = [steps.at(call.span_ns[0]) for call in calls]
    work_steps = [
        call_steps[flow - 1] if flow <= len(calls) else steps.at(work.span_ns[0])
        for flow, work in zip(flows, works, strict=True)
    ]
    items: list[HostCall | ProfiledWork] = [*calls, *works]
    waits = [call.span_ns if call.waits else (None, None) for call in calls] + [(None, None)] * len(works)
    return make_frame(
        TABLES["events"],
        {
            "step": call_steps + work_steps,
            "op": [item.name for item in items],
            "lane": [Lane.HOST.value] * len(calls) + [lanes[work.stream].value for work in works],
            "start_ns": [item.span_ns[0] for item in items],
            "end_ns": [item.span_ns[1] for item in items],
            "wait_start_ns": [start_ns for start_ns, _ in waits],
            "wait_end_ns": [end_ns for _, end_ns in waits],
            "flow": [*range(1, len(calls) + 1), *flows],
            "bytes": [0] * len(calls) + [work.bytes for work in works],
        },
    )


def _busiest_thread(timeline: Timeline) -> str | None:
    """The thread that launches most device work; of equals, the one with most calls."""
    links = {work.link for work in timeline.works if work.link is not None}
    score: dict[str, tuple[int, int]] = {}
    for call in timeline.calls:
        launches, count = score.get(call.thread, (0, 0))
        score[call.thread] = (launches + (call.link in links), count + 1)
    return max(sorted(score), key=lambda name: score[name], default=None)


def _outermost(calls: Iterable[HostCall], ledger: Ledger) -> tuple[list[HostCall], dict[str | None, int]]:
    """The calls that lie in no other, in order of time, and the flow by which a link is known: the call's number.

    What a dropped inner call launched counts as launched by the call around it.
    """
    outer: list[HostCall] = []
    flow_of: dict[str | None, int] = {}
    for call in sorted(calls, key=lambda call: (call.span_ns[0], -call.span_ns[1])):
        if outer and call.span_ns[0] < outer[-1].span_ns[1] and call.span_ns[1] <= outer[-1].span_ns[1]:
            ledger.drop("host calls inside another call")
        else:
            outer.append(call)
        if call.link is not None:
            flow_of.setdefault(call.link, len(outer))
    return outer, flow_of


def _choose_lanes(works: Iterable[ProfiledWork], wanted: Mapping[str, Lane]) -> dict[str, Lane]:
    kinds: dict[str, Counter[WorkKind]] = defaultdict(Counter)
    for work in works:
        kinds[work.stream][work.kind] += 1
    if unknown := sorted(set(wanted) - set(kinds)):
        known = ", ".join(repr(stream) for stream in sorted(kinds))
        raise TraceError(f"no stream {unknown[0]!r} in this trace; expected one of {known}")
    return {stream: wanted.get(stream, _lane_of(kinds[stream])) for stream in sorted(kinds)}


def _lane_of(kinds: Counter[WorkKind]) -> Lane:
    if kinds[WorkKind.KERNEL] or kinds[WorkKind.OTHER]:
        return Lane.COMPUTE
    return Lane.COPY if kinds[WorkKind.DOWNLOAD] >= kinds[WorkKind.UPLOAD] else Lane.PREPARE


def _tell_lanes(works: Sequence[ProfiledWork], chosen: Mapping[str, Lane]) -> dict[str, dict[str, object]]:
    told: dict[str, dict[str, object]] = {}
    for stream, lane in chosen.items():
        kinds = Counter(work.kind.value for work in works if work.stream == stream)
        told[stream] = {"lane": lane.value, **dict(sorted(kinds.items()))}
    return told


def _overlaps(events: pl.DataFrame) -> dict[str, int]:
    ordered = events.sort("lane", "start_ns", "end_ns")
    latest = pl.col("end_ns").cum_max().shift().over("lane")
    counts = ordered.filter(pl.col("start_ns") < latest).group_by("lane").len().sort("lane")
    return dict(counts.iter_rows())


class _Steps:
    """Step numbers from the profiler's marks: an event belongs to the last mark that began before it."""

    def __init__(self, marks: Iterable[StepMark]) -> None:
        self._marks = sorted(marks, key=lambda mark: mark.span_ns)
        self._starts = [mark.span_ns[0] for mark in self._marks]
        self._outside = 0

    def at(self, start_ns: int) -> int:
        if not self._marks:
            return 0
        i = bisect_right(self._starts, start_ns) - 1
        if i < 0 or start_ns >= self._marks[i].span_ns[1]:
            self._outside += 1
        return self._marks[max(i, 0)].step

    def tell(self) -> dict[str, object]:
        if not self._marks:
            return {"from": "none: every event is step 0"}
        return {"from": "the profiler's step marks", "marks": len(self._marks), "events_outside_a_mark": self._outside}

"""A torch_npu profiler folder -> a trace.

`trace_view.json` holds the timeline: the process "Ascend Hardware" has a thread a stream, the process "CANN" has the
host's calls, and both name a launch by `connection_id`. Without it `kernel_details.csv` still gives the kernels of
each stream, with no host side. Times are microseconds since 1970, written as texts to keep their nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simtool.errors import TraceError
from simtool.step.ops import Lane
from simtool.trace.importers.chrome import read_chrome, span_ns
from simtool.trace.importers.imported import Imported, Source, import_manifest
from simtool.trace.importers.kernel_details import KernelDetails, read_kernel_details
from simtool.trace.importers.ledger import Ledger
from simtool.trace.importers.mapping import NO_LANES, map_timeline
from simtool.trace.importers.timeline import HostCall, ProfiledWork, StepMark, Timeline, WorkKind

_TIMELINE, _KERNELS = "trace_view.json", "kernel_details.csv"
_PLACES = ("", "ASCEND_PROFILER_OUTPUT", "*_ascend_pt/ASCEND_PROFILER_OUTPUT")
_STEP_MARK = re.compile(r"ProfilerStep#(\d{1,9})\b")
#: Task types that order streams or write flags; nothing is computed or moved in them.
_MARKERS = re.compile(r"EVENT_|PLACE_HOLDER|NOTIFY|WRITE.VALUE", re.IGNORECASE)

Event = dict[str, Any]


def read_ascend(path: Path, lanes: Mapping[str, Lane] = NO_LANES) -> Imported:
    """Read a profiler folder. lanes: stream name (as in details.lanes) -> lane, over the default rule.

    Raises TraceError when the folder holds neither file, several profiles, or no device work.
    """
    folder = _find_output(path)
    ledger = Ledger()
    timeline, used = Timeline(), _TIMELINE
    if (folder / _TIMELINE).exists():
        _read_timeline(folder / _TIMELINE, timeline, ledger)
    kernels = read_kernel_details(folder / _KERNELS, ledger) if (folder / _KERNELS).exists() else None
    if not timeline.works and kernels is not None:
        timeline, used = kernels.timeline, _KERNELS
    if not timeline.works:
        raise TraceError(f"{folder}: no device work in {_TIMELINE} or {_KERNELS}; profile with NPU activities")
    mapped = map_timeline(timeline, ledger, lanes)
    details = {"timeline_from": used, **_compare(kernels, timeline, used), **mapped.details}
    source = Source(path, "torch_npu profiler", "not said", "npu", "Ascend NPU (model not said)", "unix time")
    return Imported(import_manifest(source, details, mapped.warnings), {"events": mapped.events})


def _find_output(path: Path) -> Path:
    folders = [
        folder
        for place in _PLACES
        for folder in ([path] if not place else sorted(path.glob(place)))
        if (folder / _TIMELINE).exists() or (folder / _KERNELS).exists()
    ]
    if not folders:
        raise TraceError(f"{path}: neither {_TIMELINE} nor {_KERNELS} in it; give a torch_npu profiler's folder")
    if len(folders) > 1:
        names = ", ".join(str(folder.relative_to(path)) for folder in folders)
        raise TraceError(f"{path}: holds {len(folders)} profiles ({names}); give one of them")
    return folders[0]


def _read_timeline(path: Path, timeline: Timeline, ledger: Ledger) -> None:
    events = read_chrome(path, ledger).events
    processes = {e.get("pid"): str(_args(e).get("name")) for e in events if e.get("name") == "process_name"}
    calls: list[HostCall] = []
    for event in events:
        process = processes.get(event.get("pid"), "not named")
        mark = _STEP_MARK.match(str(event.get("name")))
        wanted = mark is not None or process in ("Ascend Hardware", "CANN")
        if event.get("ph") == "M":
            continue  # names and sort orders; the names were read above
        if event.get("ph") != "X" or not wanted:
            ledger.drop(f"process {process}, phase {event.get('ph')}" if event else "empty events")
            continue
        span = span_ns(event)
        if span is None:
            ledger.reject("ts and dur are no span of time", {key: event.get(key) for key in ("name", "ts", "dur")})
        elif mark:
            timeline.marks.append(StepMark(int(mark.group(1)), span))
        elif process == "CANN":
            calls.append(_call(event, span))
        else:
            _take_work(event, span, timeline, ledger)
    _keep_calls(calls, timeline, ledger)


def _call(event: Event, span: tuple[int, int]) -> HostCall:
    name = str(event.get("name"))
    return HostCall(name, f"thread {event.get('tid')}", span, _link(event), waits="Synchronize" in name)


def _take_work(event: Event, span: tuple[int, int], timeline: Timeline, ledger: Ledger) -> None:
    name, task = str(event.get("name")), str(_args(event).get("Task Type", ""))
    if _MARKERS.match(task):
        ledger.drop(f"task type {task}")
        return
    # a copy's direction is not said, so it counts as other work of its stream, and its bytes are not known
    kind = WorkKind.OTHER if "MEMCPY" in name.upper() else WorkKind.KERNEL
    timeline.works.append(ProfiledWork(name, f"stream {event.get('tid')}", kind, span, _link(event)))


def _keep_calls(calls: list[HostCall], timeline: Timeline, ledger: Ledger) -> None:
    """Keep the calls that launched work or wait for it; CANN logs many that touch no stream."""
    links = {work.link for work in timeline.works if work.link is not None}
    timeline.calls = [call for call in calls if call.link in links or call.waits]
    ledger.drop("CANN calls that neither launch nor wait", len(calls) - len(timeline.calls))


def _compare(kernels: KernelDetails | None, timeline: Timeline, used: str) -> dict[str, object]:
    """How many kernels of the table the timeline has too, by their exact start."""
    if kernels is None or used == _KERNELS:
        return {}
    starts = {work.span_ns[0] for work in timeline.works}
    found = sum(work.span_ns[0] in starts for work in kernels.timeline.works)
    return {"kernel_details": {"kernels": len(kernels.timeline.works), "found_in_timeline": found}}


def _args(event: Event) -> Event:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _link(event: Event) -> str | None:
    connection = _args(event).get("connection_id")
    return None if connection is None else str(connection)

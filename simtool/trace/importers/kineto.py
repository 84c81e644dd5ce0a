"""torch.profiler (Kineto) JSON -> a trace. Kernels, copies and runtime calls are kept; see mapping.py for the map.

Kineto gives a runtime call and the device work that it launched the same `correlation`. A graph launch and all its
kernels share one. `ts` counts microseconds from `baseTimeNanoseconds`; older
traces do not say from what.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simtool.errors import TraceError
from simtool.step.ops import Lane
from simtool.trace.importers.chrome import ChromeTrace, read_chrome, span_ns
from simtool.trace.importers.imported import Imported, Source, import_manifest
from simtool.trace.importers.ledger import Ledger
from simtool.trace.importers.mapping import NO_LANES, map_timeline
from simtool.trace.importers.timeline import HostCall, ProfiledWork, StepMark, Timeline, WorkKind

_DEVICE_CATEGORIES = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"})
_HOST_CATEGORY = re.compile(r"(.*_)?(runtime|driver)")
_STEP_MARK = re.compile(r"ProfilerStep#(\d{1,9})\b")
_COPIES = (
    (re.compile("HtoD|Host -> Device"), WorkKind.UPLOAD),
    (re.compile("DtoH|Device -> (Host|Pageable|Pinned)"), WorkKind.DOWNLOAD),
)
_MAX_BYTES = 1 << 62

Event = dict[str, Any]


def read_kineto(path: Path, lanes: Mapping[str, Lane] = NO_LANES) -> Imported:
    """Read a Kineto trace, plain or gzip. lanes: stream name (as in details.lanes) -> lane, over the default rule.

    Of several devices the one with most work is kept. Raises TraceError when the file is no trace, or holds neither
    device work nor runtime calls.
    """
    ledger = Ledger()
    trace = read_chrome(path, ledger)
    sorter = _Sorter(ledger, _base_ns(trace))
    for event in trace.events:
        sorter.take(event)
    device = sorter.keep_busiest_device()
    if not sorter.timeline.works and not sorter.timeline.calls:
        raise TraceError(
            f"{path}: {len(trace.events)} events, none a kernel, copy or runtime call; profile with device activities"
        )
    mapped = map_timeline(sorter.timeline, ledger, lanes)
    version = f"trace schema {trace.header.get('schemaVersion', 'not said')}"
    clock = "unix time" if "baseTimeNanoseconds" in trace.header else "ts of the trace, as given"
    source = Source(path, "torch.profiler (Kineto)", version, "cuda", _device_name(trace, device), clock)
    manifest = import_manifest(source, {"device": device, **mapped.details}, mapped.warnings)
    return Imported(manifest, {"events": mapped.events})


@dataclass
class _Sorter:
    """Puts each event where it belongs: host calls, device work, step marks; the rest is dropped or rejected."""

    ledger: Ledger
    base_ns: int
    timeline: Timeline = field(default_factory=Timeline)
    works: dict[str, list[ProfiledWork]] = field(default_factory=lambda: defaultdict(list))

    def take(self, event: Event) -> None:
        if event.get("ph") != "X":
            self.ledger.drop(f"phase {event.get('ph')}" if event else "empty events")
            return
        category, name = str(event.get("cat", "")).lower(), str(event.get("name", ""))
        mark = _STEP_MARK.match(name) if category == "user_annotation" else None
        is_device, is_host = category in _DEVICE_CATEGORIES, _HOST_CATEGORY.fullmatch(category) is not None
        if not (is_device or is_host or mark):
            self.ledger.drop(f"category {event.get('cat')}")
            return
        span = span_ns(event)
        if span is None:
            self.ledger.reject("ts and dur are no span of time", {key: event.get(key) for key in ("name", "ts", "dur")})
            return
        span = (span[0] + self.base_ns, span[1] + self.base_ns)
        if mark:
            self.timeline.marks.append(StepMark(int(mark.group(1)), span))
        elif is_host:
            call = HostCall(name, f"thread {event.get('tid')}", span, _link(event), waits="Synchronize" in name)
            self.timeline.calls.append(call)
        else:
            self._take_work(event, category, name, span)

    def _take_work(self, event: Event, category: str, name: str, span: tuple[int, int]) -> None:
        args = _args(event)
        device, stream = f"device {args.get('device', event.get('pid'))}", args.get("stream", event.get("tid"))
        kind, moved = _kind(category, name), args.get("bytes")
        if (
            kind not in (WorkKind.UPLOAD, WorkKind.DOWNLOAD)
            or not isinstance(moved, int)
            or not 0 <= moved < _MAX_BYTES
        ):
            moved = 0
        self.works[device].append(ProfiledWork(name, f"{device} stream {stream}", kind, span, _link(event), moved))

    def keep_busiest_device(self) -> str | None:
        """Keep the device with most work, count the work of the others, and return its name."""
        device = max(sorted(self.works), key=lambda name: len(self.works[name]), default=None)
        for name, works in self.works.items():
            if name == device:
                self.timeline.works = works
            else:
                self.ledger.drop(f"work on {name}", len(works))
        return device


def _args(event: Event) -> Event:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _link(event: Event) -> str | None:
    correlation = _args(event).get("correlation")
    return None if correlation is None else str(correlation)


def _kind(category: str, name: str) -> WorkKind:
    if category == "kernel":
        return WorkKind.KERNEL
    for pattern, kind in _COPIES:
        if pattern.search(name):
            return kind
    return WorkKind.OTHER


def _base_ns(trace: ChromeTrace) -> int:
    base = trace.header.get("baseTimeNanoseconds")
    return base if isinstance(base, int) else 0


def _device_name(trace: ChromeTrace, device: str | None) -> str:
    """The device's own entry, or the one name that all entries share (numbering differs between tools)."""
    properties = trace.header.get("deviceProperties")
    entries = [entry for entry in properties if isinstance(entry, dict)] if isinstance(properties, list) else []
    names = {f"device {entry.get('id')}": str(entry.get("name", "not said")) for entry in entries}
    shared = set(names.values())
    return names.get(device or "", shared.pop() if len(shared) == 1 else "not said")

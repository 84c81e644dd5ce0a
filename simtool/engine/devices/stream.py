"""An accelerator in this process: three streams, events with times, copies through pinned memory.

Written against torch's device-agnostic API (torch.accelerator, torch.Stream, torch.Event), so cuda and npu share it.
Events tell only how far apart they are: anchor events, whose host time is known, put them on the host's clock.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simtool.engine.devices.clock_sync import Anchor, ClockMap
from simtool.engine.devices.event_pool import EventPool
from simtool.engine.devices.profiling import TorchProfile
from simtool.engine.devices.protocol import EXECUTOR_PER_LANE, Event, HostArray, WorkTiming, as_array
from simtool.engine.runner.runner import load_runner, to_numpy
from simtool.engine.runner.spec import RunnerSpec
from simtool.errors import DeviceError
from simtool.step.ops import Lane
from simtool.units import NS_PER_S

#: Event distances are float32 milliseconds and the two clocks drift: a fresh anchor keeps both errors below a us.
_ANCHOR_LASTS_NS = NS_PER_S // 4
_ANCHOR_TRIES = 5
_NO_FLOW = -1  # of what no op of a step launched


@dataclass(frozen=True)
class _Work:
    """Work on a stream, between two timed events; start is None and end untimed where no timing is asked for."""

    event: Event
    start: torch.Event | None
    end: torch.Event
    bytes: int


@dataclass(frozen=True)
class StreamDownload:
    """Pinned tensors that hold the outputs once their event has passed."""

    event: Event
    device: StreamDevice
    pinned: dict[str, Tensor]

    def wait(self) -> dict[str, NDArray[np.generic]]:
        """Block until the copy is done and return the arrays."""
        self.device.wait(self.event)
        return {name: tensor.numpy() for name, tensor in self.pinned.items()}


class StreamDevice:
    """One cuda or npu device and the Runner on it. Raises DeviceError when there is none of that name."""

    executors = EXECUTOR_PER_LANE
    pids: tuple[int, ...] = ()
    clock = "CLOCK_MONOTONIC of the host; device events are mapped onto it, see details.clock"

    def __init__(self, name: str, spec: RunnerSpec) -> None:
        self._device = find_device(name)
        self.name = self._device.type
        torch.accelerator.set_device_index(self._device.index)
        self.hardware = str(torch.get_device_module(self._device).get_device_name(self._device))
        self.now_ns: Callable[[], int] = time.perf_counter_ns
        self._runner = load_runner(spec, str(self._device))
        self.info = self._runner.info
        torch.accelerator.synchronize()
        self._streams = {lane: torch.Stream(self._device) for lane in (Lane.PREPARE, Lane.COMPUTE, Lane.COPY)}
        self.timed = True
        self._running: dict[int, _Work] = {}
        self._events = EventPool(partial(torch.Event, self._device))
        self._issued = 0
        self._closed = False
        self._clock = ClockMap()
        self._anchor: torch.Event | None = None
        self._take_anchor()

    def upload(self, work: str, flow: int, arrays: Mapping[str, HostArray], after: Sequence[Event] = ()) -> Event:
        """Pin the arrays and copy them on the prepare stream."""
        host = {name: torch.from_numpy(as_array(name, values)).pin_memory() for name, values in arrays.items()}

        def copy() -> None:
            inputs = {name: tensor.to(self._device, non_blocking=True) for name, tensor in host.items()}
            for tensor in inputs.values():
                tensor.record_stream(self._streams[Lane.COMPUTE])
            self._runner.put(inputs, host)

        return self._run(work, flow, Lane.PREPARE, after, copy, sum(tensor.nbytes for tensor in host.values())).event

    def launch(self, work: str, flow: int, after: Sequence[Event] = ()) -> Event:
        """Enqueue the kernels of the Runner's method `work` on the compute stream."""
        return self._run(work, flow, Lane.COMPUTE, after, lambda: self._runner.run(work)).event

    def rebind(self, work: str) -> None:
        """Bind the lengths uploaded last to the captured graph of `work`."""
        self._runner.rebind(work)

    def download(self, work: str, flow: int, names: Sequence[str], after: Sequence[Event] = ()) -> StreamDownload:
        """Copy named outputs into pinned memory on the copy stream."""
        outputs = {name: self._runner.output(name) for name in names}
        pinned = {name: torch.empty(x.shape, dtype=_readable(x.dtype), pin_memory=True) for name, x in outputs.items()}

        def copy() -> None:
            for name, output in outputs.items():
                # converted on the device: a conversion on the way would stop the copy from being asynchronous
                converted = output.to(pinned[name].dtype)
                pinned[name].copy_(converted, non_blocking=True)
                output.record_stream(self._streams[Lane.COPY])

        done = self._run(work, flow, Lane.COPY, after, copy, sum(tensor.nbytes for tensor in pinned.values()))
        return StreamDownload(done.event, self, pinned)

    def observe(self, names: Sequence[str]) -> dict[str, NDArray[np.generic]]:
        """Read outputs at once, behind all compute work."""
        with self._streams[Lane.COMPUTE]:
            return {name: to_numpy(self._runner.output(name)) for name in names}

    def observe_later(self, names: Sequence[str]) -> StreamDownload:
        """Copy outputs into pinned memory on the compute stream, behind what runs there."""
        with self._streams[Lane.COMPUTE]:
            outputs = {name: self._runner.output(name) for name in names}
            pinned: dict[str, Tensor] = {}
            for name, output in outputs.items():
                pinned[name] = torch.empty(output.shape, dtype=_readable(output.dtype), pin_memory=True)

        def copy() -> None:
            for name, output in outputs.items():
                pinned[name].copy_(output.to(pinned[name].dtype), non_blocking=True)

        timed, self.timed = self.timed, False
        done = self._run("observe", _NO_FLOW, Lane.COMPUTE, (), copy)
        self.timed = timed
        return StreamDownload(done.event, self, pinned)

    def wait(self, event: Event) -> None:
        """Block until that work is done."""
        work = self._running.get(event.index)
        if work is not None:
            work.end.synchronize()

    def find_unsound(self) -> None:
        """Let the runner look, once the device is idle; it raises DeviceError."""
        torch.accelerator.synchronize()
        self._runner.find_unsound()

    def timings(self) -> list[WorkTiming]:
        """Return the timings of the works whose end has passed; takes a new anchor when the streams are idle."""
        finished = [work for work in self._running.values() if work.end.query()]
        timings = [self._timing(work, work.start) for work in finished if work.start is not None]
        for work in finished:
            del self._running[work.event.index]
            self._events.give_back(work.end, timed=work.start is not None)
            if work.start is not None:
                self._events.give_back(work.start, timed=True)
        if not self._running and not self._closed and self.now_ns() - self._anchored_ns > _ANCHOR_LASTS_NS:
            self._take_anchor()
        return timings

    def start_profile(self, folder: Path) -> None:
        """Profile this process and its device."""
        self._profile = TorchProfile(self.name, folder)

    def stop_profile(self) -> None:
        """Wait for what runs, end the profile and write it."""
        torch.accelerator.synchronize()
        self._profile.stop()

    def clock_facts(self) -> dict[str, object]:
        """Return offset and drift of the two clocks, and what they are known to."""
        return self._clock.to_dict()

    def close(self) -> None:
        """Wait for what runs and refuse later work."""
        if not self._closed:
            self._closed = True
            torch.accelerator.synchronize()

    def _run(
        self, work: str, flow: int, lane: Lane, after: Sequence[Event], enqueue: Callable[[], None], moved: int = 0
    ) -> _Work:
        if self._closed:
            raise DeviceError(f"{work!r} was asked of a closed device; open another")
        stream = self._streams[lane]
        start = self._events.take(timed=True) if self.timed else None
        end = self._events.take(timed=self.timed)
        for event in after:
            if event.index in self._running:
                stream.wait_event(self._running[event.index].end)
        with stream:
            if start is not None:
                start.record(stream)
            enqueue()
            end.record(stream)
        running = _Work(Event(self._issued, flow, work, lane), start, end, moved)
        self._running[self._issued] = running
        self._issued += 1
        return running

    def _timing(self, work: _Work, start: torch.Event) -> WorkTiming:
        assert self._anchor is not None
        start_ns, end_ns = (self._clock.host_ns(self._anchor.elapsed_time(event)) for event in (start, work.end))
        event = work.event
        return WorkTiming(
            flow=event.flow, work=event.work, lane=event.lane, start_ns=start_ns, end_ns=end_ns, bytes=work.bytes
        )

    def _take_anchor(self) -> None:
        """An event and its time on the host's clock: the tightest of a few tries, taken on an idle stream."""
        stream = self._streams[Lane.COMPUTE]
        tries: list[tuple[int, int, torch.Event]] = []
        for _ in range(_ANCHOR_TRIES):
            event = self._events.take(timed=True)
            before_ns = self.now_ns()
            event.record(stream)
            event.synchronize()
            tries.append((self.now_ns() - before_ns, before_ns, event))
        width_ns, before_ns, event = min(tries, key=lambda one: one[0])
        since_last_ms = self._anchor.elapsed_time(event) if self._anchor is not None else 0.0
        self._clock.add(Anchor(before_ns + width_ns // 2, width_ns, since_last_ms))
        old, self._anchor, self._anchored_ns = self._anchor, event, before_ns
        for spare in (old, *(one for _, _, one in tries if one is not event)):
            if spare is not None:
                self._events.give_back(spare, timed=True)


def find_any() -> str | None:
    """Return the kind of the accelerator that torch sees, or None."""
    _import_npu()
    found = torch.accelerator.current_accelerator(check_available=True)
    return found.type if found is not None and found.type in ("cuda", "npu") else None


def find_device(name: str) -> torch.device:
    """Return the device of that name, with its index. Raises DeviceError when it is not there."""
    kind, _, index = name.partition(":")
    if kind == "npu":
        _import_npu()
    found = torch.accelerator.current_accelerator(check_available=True)
    if found is None or found.type != kind:
        have = f"torch sees {found.type!r}" if found is not None else "torch sees no accelerator"
        raise DeviceError(f"device {name!r} is not there ({have}); use --device cpu, or see simtool doctor")
    count = torch.accelerator.device_count()
    if index and int(index) >= count:
        raise DeviceError(f"device {name!r} is not there; {kind}:0 to {kind}:{count - 1} are")
    return torch.device(kind, int(index) if index else torch.accelerator.current_device_index())


def _import_npu() -> None:
    """Let torch know of NPUs where the package is installed and can be imported."""
    if importlib.util.find_spec("torch_npu") is not None:
        with contextlib.suppress(ImportError, OSError):  # without CANN: torch then sees no NPU, and doctor says why
            importlib.import_module("torch_npu")


def _readable(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype

"""Streams and events: whether they are on one clock, and which calls hold the host up while the device works."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from simtool.engine.first_run.check import DeviceCheck
from simtool.units import ns_to_ms

_BUSY_MS = 300.0
_SIDE = 512
_TRIES = 3


class Busywork:
    """Matrix products that keep a stream busy for about `_BUSY_MS`."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device = device
        self._matrix = torch.ones(_SIDE, _SIDE, dtype=torch.float32).mul(1 / _SIDE).to(dtype).to(device)
        self._products = 1
        while True:
            torch.accelerator.synchronize()
            started = time.perf_counter_ns()
            self.enqueue()
            torch.accelerator.synchronize()
            took_ms = ns_to_ms(time.perf_counter_ns() - started)
            if took_ms >= _BUSY_MS / 4 or self._products >= 1 << 16:
                self._products = max(1, int(self._products * _BUSY_MS / took_ms))
                return
            self._products *= 4

    def enqueue(self) -> None:
        """Put the work onto the current stream."""
        out = self._matrix
        for _ in range(self._products):
            out = out @ self._matrix


def check_clock(device: torch.device, busywork: Busywork) -> DeviceCheck:
    """Two events on two streams around some work: their distance must fit between the host's own time stamps."""
    first, second = torch.Stream(device), torch.Stream(device)
    begun, ended = (torch.Event(device, enable_timing=True) for _ in range(2))
    torch.accelerator.synchronize()
    before_first = time.perf_counter_ns()
    begun.record(first)
    begun.synchronize()
    after_first = time.perf_counter_ns()
    with first:
        busywork.enqueue()
    passed = torch.Event(device)
    passed.record(first)
    second.wait_event(passed)
    before_second = time.perf_counter_ns()
    ended.record(second)
    ended.synchronize()
    after_second = time.perf_counter_ns()
    elapsed_ms = begun.elapsed_time(ended)
    least_ms, most_ms = ns_to_ms(before_second - after_first), ns_to_ms(after_second - before_first)
    # float32 milliseconds, and clocks that drift by up to a thousandth
    good = least_ms * 0.999 - 0.01 <= elapsed_ms <= most_ms * 1.001 + 0.01
    said = (
        f"events of two streams are {elapsed_ms:.3f} ms apart; by the host's clock {least_ms:.3f} to {most_ms:.3f} ms"
    )
    facts = {"elapsed_ms": elapsed_ms, "host_least_ms": least_ms, "host_most_ms": most_ms}
    return DeviceCheck("events of two streams on one clock", "ok" if good else "wrong", said, facts)


def check_waits(device: torch.device, busywork: Busywork) -> DeviceCheck:
    """Which calls return while the stream they are made on is busy. Uploads from unpinned memory may wait."""
    there = torch.zeros(1024, dtype=torch.int64, device=device)
    pinned, unpinned = torch.zeros(1024, dtype=torch.int64).pin_memory(), torch.zeros(1024, dtype=torch.int64)
    event = torch.Event(device)
    calls: dict[str, Callable[[], object]] = {
        "upload from pinned memory": lambda: pinned.to(device, non_blocking=True),
        "read-back into pinned memory": lambda: pinned.copy_(there, non_blocking=True),
        "launch of a kernel": lambda: there.add_(1),
        "record of an event": event.record,
        "query of an event": event.query,
        "upload from unpinned memory": lambda: unpinned.to(device, non_blocking=True),
        "item": there[0].item,
    }
    waited = {name: _waits(call, busywork) for name, call in calls.items()}
    must_return = list(calls)[:5]
    bad = [name for name in must_return if waited[name]]
    wait = [name for name, held in waited.items() if held]
    said = f"the host waits in: {', '.join(wait) or 'none'}"
    if bad:
        said += f"; {', '.join(bad)} should return at once"
    return DeviceCheck("calls that wait for the device", "wrong" if bad else "ok", said, {"waits": waited})


def _waits(call: Callable[[], object], busywork: Busywork) -> bool:
    """Whether the work was over each time when the call came back; a host that stumbled once does not count."""
    stream = torch.Stream(busywork.device)
    with stream:
        call()  # first uses allocate
        for _ in range(_TRIES):
            stream.synchronize()
            busywork.enqueue()
            busy = torch.Event(busywork.device)
            busy.record(stream)
            call()
            if not busy.query():
                stream.synchronize()
                return False
    stream.synchronize()
    return True

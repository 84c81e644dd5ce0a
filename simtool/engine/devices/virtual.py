"""A device with given durations and a virtual clock: real tokens, repeatable times.

Work runs in this process, at once and in the order of its launch, so its results are real; when it *would* have run
is arithmetic. The same host code therefore gives the same trace on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from simtool.engine.devices.protocol import EXECUTOR_PER_LANE, ONE_EXECUTOR, Event, HostArray, WorkTiming, as_array
from simtool.engine.runner.runner import Runner, to_numpy
from simtool.errors import DeviceError
from simtool.step.ops import CATALOGUE, Lane


class VirtualClock:
    """Time that passes only when told to. tick_ns: what each reading adds, so that host work takes time."""

    def __init__(self, start_ns: int = 0, tick_ns: int = 0) -> None:
        self._now_ns, self._tick_ns = start_ns, tick_ns

    def __call__(self) -> int:
        """Read the clock, in ns."""
        self._now_ns += self._tick_ns
        return self._now_ns

    def advance_to(self, time_ns: int) -> None:
        """Let time pass until `time_ns`; a moment already past changes nothing."""
        self._now_ns = max(self._now_ns, time_ns)


@dataclass(frozen=True)
class TimedDownload:
    """Arrays that the host may have once the clock reaches the end of the copy."""

    event: Event
    device: TimedDevice
    arrays: dict[str, NDArray[np.generic]]

    def wait(self) -> dict[str, NDArray[np.generic]]:
        """Let the clock run to the end of the copy and return the arrays."""
        self.device.wait(self.event)
        return self.arrays


@dataclass(frozen=True)
class ReadAlready:
    """Arrays that are here."""

    event: Event
    arrays: dict[str, NDArray[np.generic]]

    def wait(self) -> dict[str, NDArray[np.generic]]:
        """Return the arrays."""
        return self.arrays


class TimedDevice:
    """One Runner under arithmetic time.

    durations_ns: per device work; launching a work without one is an error. one_executor: all lanes share one
    processor (the cpu device); otherwise each lane is a stream of its own (cuda, npu).
    """

    name = "timed"
    hardware = "virtual clock"
    clock = "virtual ns"
    pids: tuple[int, ...] = ()

    def __init__(
        self,
        runner: Runner,
        durations_ns: Mapping[str, int],
        clock: VirtualClock | None = None,
        *,
        one_executor: bool = False,
    ) -> None:
        self.info = runner.info
        self.executors = ONE_EXECUTOR if one_executor else EXECUTOR_PER_LANE
        self.now_ns = VirtualClock() if clock is None else clock
        self._runner, self._durations_ns, self._one_executor = runner, durations_ns, one_executor
        self._free_ns: dict[Lane | None, int] = {}
        self.timed = True
        self._timings: list[WorkTiming] = []
        self._untimed: set[int] = set()
        self._reported = 0
        self._closed = False

    def upload(self, work: str, flow: int, arrays: Mapping[str, HostArray], after: Sequence[Event] = ()) -> Event:
        """Hand the arrays to the runner."""
        tensors = {name: torch.from_numpy(as_array(name, values)) for name, values in arrays.items()}
        event = self._run(work, flow, Lane.PREPARE, after, sum(tensor.nbytes for tensor in tensors.values()))
        self._runner.put(tensors, tensors)
        return event

    def launch(self, work: str, flow: int, after: Sequence[Event] = ()) -> Event:
        """Run the runner's method `work`."""
        event = self._run(work, flow, Lane.COMPUTE, after, 0)
        self._runner.run(work)
        return event

    def rebind(self, work: str) -> None:
        """Let the runner bind its graph's lengths."""
        self._runner.rebind(work)

    def download(self, work: str, flow: int, names: Sequence[str], after: Sequence[Event] = ()) -> TimedDownload:
        """Copy named outputs, which later work may replace."""
        arrays = {name: to_numpy(self._runner.output(name)) for name in names}
        event = self._run(work, flow, Lane.COPY, after, sum(array.nbytes for array in arrays.values()))
        return TimedDownload(event, self, arrays)

    def observe(self, names: Sequence[str]) -> dict[str, NDArray[np.generic]]:
        """Read outputs in no time."""
        return {name: to_numpy(self._runner.output(name)) for name in names}

    def observe_later(self, names: Sequence[str]) -> ReadAlready:
        """Read outputs in no time: they are there."""
        return ReadAlready(Event(-1, -1, "observe", Lane.COPY), self.observe(names))

    def wait(self, event: Event) -> None:
        """Let the clock run to the end of that work."""
        self.now_ns.advance_to(self._timings[event.index].end_ns)

    def find_unsound(self) -> None:
        """Let the runner look; it raises DeviceError."""
        self._runner.find_unsound()

    def timings(self) -> list[WorkTiming]:
        """Return what has been enqueued since the last call and is over by now."""
        now_ns, first = self.now_ns(), self._reported
        while self._reported < len(self._timings) and self._timings[self._reported].end_ns <= now_ns:
            self._reported += 1
        return [self._timings[place] for place in range(first, self._reported) if place not in self._untimed]

    def start_profile(self, folder: Path) -> None:
        """Raise DeviceError: there is no device to profile."""
        raise DeviceError("a device on a virtual clock has nothing to profile")

    def stop_profile(self) -> None:
        """Nothing was started."""

    def clock_facts(self) -> dict[str, object]:
        """Return that nothing was mapped."""
        return {"mapping": "none: device times are computed on the virtual clock"}

    def close(self) -> None:
        """Refuse later work."""
        self._closed = True

    def _run(self, work: str, flow: int, lane: Lane, after: Sequence[Event], moved: int) -> Event:
        if self._closed:
            raise DeviceError(f"{work!r} was asked of a closed device; open another")
        if work not in self._durations_ns:
            raise DeviceError(f"no duration for device work {work!r}; add it to durations_ns")
        executor = None if self._one_executor else lane
        ready_ns = [self._timings[event.index].end_ns for event in after]
        start_ns = max(self.now_ns(), self._free_ns.get(executor, 0), *ready_ns)
        end_ns = start_ns + self._durations_ns[work]
        self._free_ns[executor] = end_ns
        if not self.timed:
            self._untimed.add(len(self._timings))
        self._timings.append(WorkTiming(flow=flow, work=work, lane=lane, start_ns=start_ns, end_ns=end_ns, bytes=moved))
        return Event(len(self._timings) - 1, flow, work, lane)


def same_durations(duration_ns: int) -> dict[str, int]:
    """Return one duration for every device work of the catalogue."""
    return {work.name: duration_ns for op in CATALOGUE.values() for work in op.works}

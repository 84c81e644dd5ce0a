"""The device: streams, events and copies, behind one small interface for cpu, cuda and npu.

Host code never touches a model tensor. It builds plain lists, uploads them by name, launches the Runner's work on
streams, and reads results back through an explicit copy. Everything that is enqueued returns at once; only
`Download.wait` and `wait` block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simtool.engine.runner.spec import RunnerInfo
from simtool.errors import DeviceError
from simtool.step.ops import Lane

#: What the host hands over: flat or rectangular lists of whole or real numbers.
HostArray = Sequence[int] | Sequence[float] | Sequence[Sequence[int]]


@dataclass(frozen=True)
class Event:
    """Device work that has been enqueued. flow: the host op that launched it."""

    index: int
    flow: int
    work: str
    lane: Lane


@dataclass(frozen=True)
class WorkTiming:
    """When one piece of device work ran, in ns on the host's monotonic clock; bytes moved between host and device."""

    flow: int
    work: str
    lane: Lane
    start_ns: int
    end_ns: int
    bytes: int


class Download(Protocol):
    """A read-back under way."""

    @property
    def event(self) -> Event:
        """The copy's event."""

    def wait(self) -> dict[str, NDArray[np.generic]]:
        """Block until the copy is done and return the arrays by name."""


class Device(Protocol):
    """One accelerator, or the other CPU core, running one Runner.

    name: "cpu", "cuda", ... hardware: what the machine calls it. info: what the host must know of the models.
    clock: what its times count from, in words.
    now_ns: the host's clock, the one that `timings` are on. executors: lane -> what runs it in order; lanes of one
    executor never overlap. pids: helper processes, whose CPU time is the run's own. timed: whether work that
    is enqueued from now on leaves a timing.
    """

    name: str
    hardware: str
    info: RunnerInfo
    clock: str
    executors: Mapping[str, str]
    pids: tuple[int, ...]
    timed: bool

    @property
    def now_ns(self) -> Callable[[], int]:
        """The host's clock."""

    def upload(self, work: str, flow: int, arrays: Mapping[str, HostArray], after: Sequence[Event] = ()) -> Event:
        """Enqueue host -> device copies on the prepare stream; the Runner then finds the tensors by name."""

    def launch(self, work: str, flow: int, after: Sequence[Event] = ()) -> Event:
        """Enqueue the Runner's method `work` on the compute stream, behind the events of `after`."""

    def rebind(self, work: str) -> None:
        """Bind the lengths uploaded last to the captured graph of `work`, on the host.

        Raises DeviceError on a device whose graphs do not read host lengths.
        """

    def download(self, work: str, flow: int, names: Sequence[str], after: Sequence[Event] = ()) -> Download:
        """Enqueue device -> host copies of named Runner outputs on the copy stream."""

    def observe(self, names: Sequence[str]) -> dict[str, NDArray[np.generic]]:
        """Read named Runner outputs back at once, between steps: it blocks, and leaves no timing."""

    def observe_later(self, names: Sequence[str]) -> Download:
        """Start the same copy behind all work so far, and leave no timing: for what still runs when a step ends."""

    def wait(self, event: Event) -> None:
        """Block until that work is done."""

    def find_unsound(self) -> None:
        """After a verdict that is not sound: raise DeviceError naming the first layer that gives NaN or Inf."""

    def timings(self) -> list[WorkTiming]:
        """Return the timings of work known to be done since the last call, in order; never blocks."""

    def start_profile(self, folder: Path) -> None:
        """Profile all device work from here on with the framework's own profiler, into a folder."""

    def stop_profile(self) -> None:
        """End the profile and write it."""

    def clock_facts(self) -> dict[str, object]:
        """Return how device times came onto the host's clock and how well, for the manifest."""

    def close(self) -> None:
        """Release the device; later calls are errors."""


#: Device lanes that share one processor, and device lanes that are streams of their own.
ONE_EXECUTOR: Mapping[str, str] = {lane.value: "device" for lane in (Lane.PREPARE, Lane.COMPUTE, Lane.COPY)}
EXECUTOR_PER_LANE: Mapping[str, str] = {lane: lane for lane in ONE_EXECUTOR}


def as_array(name: str, values: HostArray) -> NDArray[np.generic]:
    """Return a contiguous int64 or float64 array of a host list. Raises DeviceError for anything else."""
    try:
        array = np.ascontiguousarray(values, dtype=None if len(values) else np.int64)
    except ValueError as error:
        raise DeviceError(f"{name}: rows of different lengths; pad them to one length before the upload") from error
    if array.dtype not in (np.int64, np.float64):
        raise DeviceError(f"{name}: holds {array.dtype}; upload lists of int or of float")
    return array

"""What the host and the device process say to each other: messages over pipes, arrays in shared memory."""

from __future__ import annotations

import os
import pickle
import select
import time
from collections import deque
from collections.abc import Iterable, Mapping
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simtool.engine.runner.spec import RunnerInfo
from simtool.errors import DeviceError

#: How long to look before sleeping. A sleeper takes some hundred microseconds to wake, on a virtual machine; a looker
#: burns its core, and slows the other one where both are threads of the same core. Longer than any wait for the host.
#: A looker yields, so that on a busy machine it takes no time that the other side could use.
SPIN_NS = 2_000_000
_ALIGNMENT = 64

clock_ns = time.perf_counter_ns


class Field(NamedTuple):
    """Where one array lies in shared memory."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


class Upload(NamedTuple):
    """Command: take these arrays from the staging memory."""

    fields: tuple[Field, ...]


class Launch(NamedTuple):
    """Command: run this method of the Runner."""

    work: str


class FindUnsound(NamedTuple):
    """Command: say which layer is the first to give NaN or Inf. The answer is a failure."""


class ReadBack(NamedTuple):
    """Command: put these outputs into the results memory, from `offset` on and at most `room` bytes."""

    names: tuple[str, ...]
    offset: int
    room: int


class SwitchProfiler(NamedTuple):
    """Command, without a report: profile into this folder from here on; None ends it."""

    folder: Path | None


class Close(NamedTuple):
    """Command: stop."""


class Ready(NamedTuple):
    """Report: the models are loaded."""

    info: RunnerInfo


class Done(NamedTuple):
    """Report: the oldest unreported command is done. fields: what a download left in the results memory."""

    start_ns: int
    end_ns: int
    fields: tuple[Field, ...]


class Failed(NamedTuple):
    """Report: the process is stopping. kind: name of the exception's class."""

    kind: str
    message: str
    traceback: str


Command = Upload | Launch | FindUnsound | ReadBack | SwitchProfiler | Close
Report = Ready | Done | Failed


class Channel:
    """Messages over a pipe. Receiving looks for a moment before it sleeps."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._poll = select.poll()
        self._poll.register(connection.fileno(), select.POLLIN)

    def send(self, message: Command | list[Report]) -> None:
        """Send a command, or reports together. Raises OSError when nobody is left to read them."""
        self._connection.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))

    @property
    def ready(self) -> bool:
        """Whether `receive` would return, or raise, at once."""
        return bool(self._poll.poll(0))

    def receive(self) -> Any:
        """Wait for one message. Raises EOFError or OSError when the other side is gone."""
        give_up_ns = clock_ns() + SPIN_NS
        while not self.ready:
            if clock_ns() > give_up_ns:
                self._poll.poll()
                break
            os.sched_yield()
        return pickle.loads(self._connection.recv_bytes())

    def close(self) -> None:
        """Close this end."""
        self._connection.close()


class Ring:
    """Hands out stretches of a memory of `capacity` bytes, and takes them back oldest first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._taken: deque[tuple[int, int]] = deque()

    def take(self, size: int) -> int | None:
        """Return the offset of `size` free bytes, or None until older stretches are given back."""
        if not self._taken:
            start, limit = 0, self.capacity
        else:
            oldest, newest_end = self._taken[0][0], self._taken[-1][1]
            if newest_end <= oldest:
                start, limit = newest_end, oldest
            elif newest_end + size <= self.capacity:
                start, limit = newest_end, self.capacity
            else:
                start, limit = 0, oldest
        if start + size > limit:
            return None
        self._taken.append((start, start + size))
        return start

    def give_back(self) -> None:
        """Free the oldest stretch."""
        self._taken.popleft()


def size_of(arrays: Iterable[NDArray[np.generic]]) -> int:
    """Bytes that `store` needs for these arrays, at least 1."""
    return max(1, sum(_padded(array.nbytes) for array in arrays))


def store(memory: SharedMemory, offset: int, arrays: Mapping[str, NDArray[np.generic]]) -> tuple[Field, ...]:
    """Copy arrays into shared memory from `offset` on and return where they lie."""
    fields = []
    for name, array in arrays.items():
        field = Field(name, array.dtype.str, array.shape, offset)
        _view(memory, field)[...] = array
        fields.append(field)
        offset += _padded(array.nbytes)
    return tuple(fields)


def load(memory: SharedMemory, fields: Iterable[Field]) -> dict[str, NDArray[np.generic]]:
    """Copy arrays out of shared memory."""
    return {field.name: _view(memory, field).copy() for field in fields}


def check_clock() -> None:
    """Raise DeviceError unless both processes read the same clock."""
    implementation = time.get_clock_info("perf_counter").implementation
    if implementation not in ("clock_gettime(CLOCK_MONOTONIC)", "mach_absolute_time()"):
        raise DeviceError(f"the clock is {implementation}, which two processes do not share; run on Linux or macOS")


def _view(memory: SharedMemory, field: Field) -> NDArray[np.generic]:
    return np.ndarray(field.shape, np.dtype(field.dtype), memory.buf, field.offset)


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT

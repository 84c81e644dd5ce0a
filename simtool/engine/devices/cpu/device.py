"""The other CPU core as an asynchronous device: a process of its own that runs the Runner.

Torch has no CPU stream, and a forward in a thread shares the interpreter lock with the host's list building; a
process does not. One executor serves all lanes in the order of the calls, so what `after` asks for always holds, and
lanes are labels. Both processes stamp times with one system-wide clock.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simtool.engine.devices.cpu import channel as cpu_channel
from simtool.engine.devices.cpu.channel import (
    Channel,
    Close,
    Done,
    Failed,
    Field,
    FindUnsound,
    Launch,
    Ready,
    Report,
    Ring,
    SwitchProfiler,
    Upload,
)
from simtool.engine.devices.protocol import ONE_EXECUTOR, Event, HostArray, WorkTiming, as_array
from simtool.engine.runner.spec import RunnerInfo, RunnerSpec
from simtool.errors import DeviceError, SimtoolError
from simtool.lifetimes import end_with_parent, starting_helpers
from simtool.step.ops import Lane

_STAGING_BYTES = 8 << 20
_RESULT_BYTES = 1 << 20
_DOWNLOADS_AT_ONCE = 8
_WORKS_AT_ONCE = 256  # far below what the pipes hold, so neither side ever blocks on a full one
_CLOSE_TIMEOUT_S = 5.0
_LOADING = "loading"
_NO_FLOW = -1  # of what no op of a step launched


class CpuDownload:
    """Arrays on their way from the device process."""

    def __init__(self, device: CpuDevice, event: Event) -> None:
        self.event = event
        self._device = device
        self._arrays: dict[str, NDArray[np.generic]] = {}

    def wait(self) -> dict[str, NDArray[np.generic]]:
        """Block until the copy is done and return the arrays. Raises DeviceError when the device has failed."""
        self._device.wait(self.event)
        return self._arrays

    def receive(self, memory: SharedMemory, fields: Sequence[Field]) -> None:
        """Copy the arrays out, so that their memory can be used again."""
        self._arrays = cpu_channel.load(memory, fields)


class _Pending(NamedTuple):
    """Work whose report is still to come. moved: bytes. timed: whether its timing is kept."""

    event: Event
    moved: int
    download: CpuDownload | None
    timed: bool


class CpuDevice:
    """A device process, alive from construction to `close`. Not for use from several threads.

    Construction blocks until the models are loaded; raises what loading raises.
    """

    name = "cpu"
    executors = ONE_EXECUTOR
    clock = "CLOCK_MONOTONIC of the host, shared by the device process"

    def __init__(self, spec: RunnerSpec) -> None:
        cpu_channel.check_clock()
        self.hardware = _cpu_name()
        self.now_ns = cpu_channel.clock_ns
        self._staging = SharedMemory(create=True, size=_STAGING_BYTES)
        self._results = SharedMemory(create=True, size=_RESULT_BYTES * _DOWNLOADS_AT_ONCE)
        self._ring = Ring(_STAGING_BYTES)
        self._issued = self._done = self._downloads = 0
        self.timed = True
        self._pending: deque[_Pending] = deque()
        self._timings: list[WorkTiming] = []
        self._unread: deque[Report] = deque()
        self._failure: SimtoolError | None = None
        self._closed = False
        self._start(spec)

    def upload(self, work: str, flow: int, arrays: Mapping[str, HostArray], after: Sequence[Event] = ()) -> Event:
        """Stage the arrays in shared memory; the device process takes its own copy."""
        self._check_open(work)
        staged = {name: as_array(name, values) for name, values in arrays.items()}
        offset = self._stage(work, cpu_channel.size_of(staged.values()))
        fields = cpu_channel.store(self._staging, offset, staged)
        return self._issue(Upload(fields), Event(self._issued, flow, work, Lane.PREPARE), _bytes(fields))

    def launch(self, work: str, flow: int, after: Sequence[Event] = ()) -> Event:
        """Enqueue the Runner's method `work`."""
        self._check_open(work)
        return self._issue(Launch(work), Event(self._issued, flow, work, Lane.COMPUTE))

    def rebind(self, work: str) -> None:
        """Raise DeviceError: a cpu captures no graphs."""
        raise DeviceError(f"a cpu captures no graph of {work!r}; take a placement that does not rebind")

    def download(self, work: str, flow: int, names: Sequence[str], after: Sequence[Event] = ()) -> CpuDownload:
        """Enqueue copies of named outputs to shared memory."""
        self._check_open(work)
        while sum(each.download is not None for each in self._pending) >= _DOWNLOADS_AT_ONCE:
            self._receive()
        offset = self._downloads % _DOWNLOADS_AT_ONCE * _RESULT_BYTES
        self._downloads += 1
        download = CpuDownload(self, Event(self._issued, flow, work, Lane.COPY))
        command = cpu_channel.ReadBack(tuple(names), offset, _RESULT_BYTES)
        self._issue(command, download.event, download=download)
        return download

    def observe(self, names: Sequence[str]) -> dict[str, NDArray[np.generic]]:
        """Read outputs at once; the device process stamps the time all the same, but nobody hears of it."""
        return self.observe_later(names).wait()

    def observe_later(self, names: Sequence[str]) -> CpuDownload:
        """Read outputs in their turn."""
        timed, self.timed = self.timed, False
        download = self.download("observe", _NO_FLOW, names)
        self.timed = timed
        return download

    def wait(self, event: Event) -> None:
        """Block until that work is done and, unless it is a download, what was queued behind it by now as well.

        Raises DeviceError when the device has failed.
        """
        while self._done <= event.index:
            self._receive()

    def find_unsound(self) -> None:
        """Let the device process look; its failure is the answer."""
        self.wait(self._issue(FindUnsound(), Event(self._issued, 0, "verify", Lane.COMPUTE)))

    def timings(self) -> list[WorkTiming]:
        """Return the timings reported since the last call."""
        while self._pending and self._failure is None and (self._unread or self._reports.ready):
            self._receive()
        timings, self._timings = self._timings, []
        return timings

    def start_profile(self, folder: Path) -> None:
        """Profile the device process."""
        self._commands.send(SwitchProfiler(folder))

    def stop_profile(self) -> None:
        """Let the device process write its profile; it does so before any later work."""
        self._commands.send(SwitchProfiler(None))

    def clock_facts(self) -> dict[str, object]:
        """Return that nothing was mapped."""
        return {"mapping": "none: both processes read one clock", "offset_uncertainty_ns": 0}

    def close(self) -> None:
        """Stop the process and free the shared memory. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        with suppress(OSError):  # it may be gone already
            self._commands.send(Close())
        self._process.join(_CLOSE_TIMEOUT_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._free()

    def _start(self, spec: RunnerSpec) -> None:
        context = multiprocessing.get_context("spawn")
        their_commands, our_commands = context.Pipe(duplex=False)
        our_reports, their_reports = context.Pipe(duplex=False)
        self._commands, self._reports = Channel(our_commands), Channel(our_reports)
        args = (spec, their_commands, their_reports, self._staging.name, self._results.name)
        self._process = context.Process(target=_serve, args=args, name="simtool-device", daemon=True)
        with starting_helpers():
            self._process.start()
        assert self._process.pid is not None, "a started process has an id"
        self.pids: tuple[int, ...] = (self._process.pid,)
        # with our copies of its ends closed, a dead process reads as end of file on both sides
        their_commands.close()
        their_reports.close()
        try:
            self.info: RunnerInfo = self._next_report(Ready).info
        except BaseException:
            self.close()
            raise

    def _stage(self, work: str, size: int) -> int:
        if size > self._ring.capacity:
            raise DeviceError(f"{work}: upload of {size} bytes; at most {self._ring.capacity} fit, lower the batch")
        while (offset := self._ring.take(size)) is None:
            self._receive()
        return offset

    def _issue(self, command: Any, event: Event, moved: int = 0, download: CpuDownload | None = None) -> Event:
        while len(self._pending) >= _WORKS_AT_ONCE:
            self._receive()
        self._pending.append(_Pending(event, moved, download, self.timed))
        self._issued += 1
        try:
            self._commands.send(command)
        except OSError:
            self._receive_all()
        return event

    def _receive(self) -> None:
        """Take the next report: that of the oldest pending work."""
        done = self._next_report(Done)
        event, moved, download, timed = self._pending.popleft()
        if event.lane is Lane.PREPARE:
            self._ring.give_back()
        if download is not None:
            download.receive(self._results, done.fields)
            moved = _bytes(done.fields)
        if timed:
            self._timings.append(
                WorkTiming(
                    flow=event.flow,
                    work=event.work,
                    lane=event.lane,
                    start_ns=done.start_ns,
                    end_ns=done.end_ns,
                    bytes=moved,
                )
            )
        self._done += 1

    def _receive_all(self) -> None:
        """The process no longer listens: read on to the report that says why."""
        while True:
            self._receive()

    def _next_report(self, expected: type[Any]) -> Any:
        self._check_open("wait")
        try:
            while not self._unread:
                self._unread.extend(self._reports.receive())
        except (EOFError, OSError) as error:
            self._process.join(_CLOSE_TIMEOUT_S)
            code = self._process.exitcode
            how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with status {code}"
            self._failure = DeviceError(f"the device process {how} without a word; open the device again")
            raise self._failure from error
        report = self._unread.popleft()
        if isinstance(report, Failed):
            self._failure = _error(report, self._pending[0].event.work if self._pending else _LOADING)
            raise self._failure
        assert isinstance(report, expected)
        return report

    def _check_open(self, work: str) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise DeviceError(f"{work!r} was asked of a closed device; open another")

    def _free(self) -> None:
        self._commands.close()
        self._reports.close()
        for memory in (self._staging, self._results):
            memory.close()
            memory.unlink()


def _serve(*args: Any) -> None:
    """The process's entry: torch is imported there, and never by the host on its account."""
    end_with_parent()  # before anything that takes long: a host that is killed meanwhile leaves nobody to stop it
    from simtool.engine.devices.cpu.process import serve  # noqa: PLC0415

    serve(*args)


def _error(report: Failed, work: str) -> SimtoolError:
    """The process's exception as one of ours; where it failed goes into a note."""
    known = {cls.__name__: cls for cls in SimtoolError.__subclasses__()}
    if report.kind in known and work == _LOADING:
        error = known[report.kind](report.message)
    else:
        what = report.message if report.kind in known else f"{report.kind}: {report.message}"
        error = DeviceError(f"the device process failed in {work!r}: {what}")
    error.add_note(report.traceback)
    return error


def _bytes(fields: Sequence[Field]) -> int:
    return sum(np.dtype(field.dtype).itemsize * int(np.prod(field.shape)) for field in fields)


def _cpu_name() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"

"""The device process: one thread that takes commands strictly in order, like a stream."""

from __future__ import annotations

import signal
import traceback
from collections import deque
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from simtool.engine.devices.cpu.channel import (
    Channel,
    Close,
    Command,
    Done,
    Failed,
    Field,
    FindUnsound,
    Launch,
    ReadBack,
    Ready,
    Report,
    SwitchProfiler,
    Upload,
    clock_ns,
    load,
    size_of,
    store,
)
from simtool.engine.devices.profiling import TorchProfile
from simtool.engine.runner.runner import Runner, load_runner, to_numpy
from simtool.engine.runner.spec import RunnerSpec
from simtool.errors import DeviceError


def serve(spec: RunnerSpec, commands: Connection, reports: Connection, staging: str, results: str) -> None:
    """Load the models, then work until told to close, until the host is gone, or until something fails."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the host, which closes this process
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    out = Reports(Channel(reports))
    try:
        runner = load_runner(spec)
        out.add(Ready(runner.info))
        _work(runner, Commands(Channel(commands)), out, SharedMemory(staging), SharedMemory(results))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the host is gone: nobody is left to tell
    except Exception as error:
        out.add(Failed(type(error).__name__, str(error), traceback.format_exc()))
        out.send()


class Reports:
    """What the host is to hear. It is told together: each message wakes a sleeping host, at the device's expense."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._unsent: list[Report] = []

    def add(self, report: Report) -> None:
        """Keep a report until the next `send`."""
        self._unsent.append(report)

    def send(self) -> None:
        """Tell the host all that it has not heard."""
        if self._unsent:
            self._channel.send(self._unsent)
            self._unsent = []


class Commands:
    """The host's commands in their order."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._ahead: deque[Command] = deque()

    def look_ahead(self) -> Command | None:
        """Return the next command, or None when there is none yet."""
        while self._channel.ready:
            self._ahead.append(self._channel.receive())
        return self._ahead[0] if self._ahead else None

    def take(self) -> Command:
        """Wait for the next command. Raises EOFError or OSError when the host is gone."""
        return self._ahead.popleft() if self._ahead else self._channel.receive()


def _work(runner: Runner, commands: Commands, reports: Reports, staging: SharedMemory, results: SharedMemory) -> None:
    profile: TorchProfile | None = None
    while True:
        if commands.look_ahead() is None:
            reports.send()  # a host that sends nothing may be waiting for any of them
        command = commands.take()
        if isinstance(commands.look_ahead(), ReadBack):
            reports.send()  # the host waits for what comes next: waking takes it about as long as this command takes
        start_ns = clock_ns()
        fields: tuple[Field, ...] = ()
        match command:
            case Upload():
                inputs = {name: torch.from_numpy(array) for name, array in load(staging, command.fields).items()}
                runner.put(inputs, inputs)
            case Launch():
                runner.run(command.work)
            case FindUnsound():
                runner.find_unsound()
            case ReadBack():
                fields = _read_back(runner, command, results)
            case SwitchProfiler(folder=Path() as folder):
                profile = TorchProfile("cpu", folder)
                continue
            case SwitchProfiler():
                assert profile is not None, "the host ends only what it started"
                profile.stop()
                continue
            case Close():
                return
        reports.add(Done(start_ns, clock_ns(), fields))
        if isinstance(command, ReadBack):
            reports.send()  # whatever is queued behind it, the host waits for what it reads


def _read_back(runner: Runner, command: ReadBack, results: SharedMemory) -> tuple[Field, ...]:
    arrays: dict[str, NDArray[np.generic]] = {name: to_numpy(runner.output(name)) for name in command.names}
    if size_of(arrays.values()) > command.room:
        raise DeviceError(f"download of {size_of(arrays.values())} bytes; at most {command.room} fit, ask for less")
    return store(results, command.offset, arrays)

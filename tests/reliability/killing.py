"""Run a writer and kill it, or fail it, at every point where it touches the disk.

`python -m tests.reliability.killing SCENARIO FOLDER kill|fail STRIDE` forks once a point: the child's file operations
count down, and at 0 it is killed (SIGKILL, in a write after half of the bytes) or gets ENOSPC. After each point another
child looks at what is there, and a third runs the writer to its end. One line of JSON a point says what they found.
"""

from __future__ import annotations

import errno
import importlib
import io
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: File operations that change a disk. A ctypes call cannot be counted here: `writing._exchange` is, by its own name.
_COUNTED = ("open", "replace", "rename", "mkdir", "unlink", "rmdir", "fsync", "chmod")
_MOST_POINTS = 400
_THROUGH = "no operation failed"


@dataclass(frozen=True)
class Scenario:
    """What is written over what. prepare: makes the old state. act: writes. state: names what a reader finds."""

    prepare: Callable[[Path], None]
    act: Callable[[Path], None]
    state: Callable[[Path], str]
    allowed: frozenset[str] = frozenset({"old", "new"})


class Failing:
    """Counts file operations down and, at 0, kills this process or makes the operation fail."""

    def __init__(self, countdown: int, *, kill: bool) -> None:
        self.left, self.kill = countdown, kill

    def touch(self, path: object) -> None:
        self.left -= 1
        if self.left == 0:
            self.fail(path)

    def fail(self, path: object) -> None:
        if self.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def install(self) -> None:
        for name in _COUNTED:
            setattr(os, name, self._counted(getattr(os, name), changes=name != "open"))
        writing = importlib.import_module("simtool.files.writing")
        exchange = vars(writing)["_exchange"]
        setattr(writing, "_exchange", self._counted(exchange, changes=True))  # noqa: B010
        counter = self

        class Raw(io.FileIO):
            def write(self, data: Any) -> int:
                counter.left -= 1
                if counter.left == 0:
                    super().write(memoryview(data)[: len(data) // 2])
                    counter.fail(self.name)
                return super().write(data)

        plain = os.fdopen

        def fdopen(descriptor: int, mode: str = "r", *rest: Any, **more: Any) -> Any:
            return io.BufferedWriter(Raw(descriptor, "wb")) if mode == "wb" else plain(descriptor, mode, *rest, **more)

        os.fdopen = fdopen  # type: ignore[assignment]

    def _counted(self, plain: Callable[..., Any], *, changes: bool) -> Callable[..., Any]:
        def call(path: Any, *rest: Any, **more: Any) -> Any:
            flags = rest[0] if rest and isinstance(rest[0], int) else 0
            if changes or flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
                self.touch(path)
            return plain(path, *rest, **more)

        return call


def in_child(work: Callable[[], str | None]) -> tuple[int, str]:
    """Run in a fork: its wait status and what it returned, or its traceback."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            told, status = work() or "", 0
        except BaseException:
            told, status = traceback.format_exc(), 1
        os.write(writer, told.encode()[-4000:])
        os._exit(status)
    os.close(writer)
    with open(reader, "rb") as pipe:
        told = pipe.read().decode()
    return os.waitpid(child, 0)[1], told


def leftovers(folder: Path) -> list[str]:
    """Temporary files and folders of any writer, anywhere below."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*simtmp*"))


def points(scenario: Scenario, folder: Path, *, kill: bool, stride: int = 1) -> list[dict[str, Any]]:
    """Fail the writer at each point in turn, or at every `stride`-th, until it gets through."""
    found: list[dict[str, Any]] = []
    for point in range(1, _MOST_POINTS, stride):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        status, told = in_child(lambda: scenario.prepare(folder))
        assert status == 0, told

        def act(point: int = point) -> str:
            failing = Failing(point, kill=kill)
            failing.install()
            scenario.act(folder)
            return _THROUGH if failing.left > 0 else "an operation failed, and the writer did without it"

        status, told = in_child(act)
        _, state = in_child(lambda: scenario.state(folder))
        kept = leftovers(folder)
        again, said = in_child(lambda: scenario.act(folder))
        _, after = in_child(lambda: scenario.state(folder))
        found.append(
            {
                "point": point,
                "ended": os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status),
                "told": told,
                "state": state,
                "kept": kept,
                "again": said if again else "",
                "after": after,
                "left": leftovers(folder),
            }
        )
        if told == _THROUGH:
            return found
    raise AssertionError(f"more than {_MOST_POINTS} points")


if __name__ == "__main__":
    scenarios = importlib.import_module("tests.reliability.scenarios")
    name, place, how, each = sys.argv[1:]
    print(json.dumps(points(scenarios.SCENARIOS[name], Path(place), kill=how == "kill", stride=int(each))))

"""A command in a process of its own, with limits on its time and memory, and what it came to."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import resource
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from simtool.cli.main import run
from tests.reliability.hostile.inputs import Drawn
from tests.reliability.hostile.judging import why_accepted

T = TypeVar("T")
SECONDS, BYTES = 60, 8 << 30


@dataclass(frozen=True)
class Outcome:
    """What a command came to, and its last words. told: "exit 2", "traceback" ..., or why it was right to accept."""

    told: str
    said: str
    sound: bool


def in_fork(work: Callable[[], T]) -> T:
    """Run in a fork, so that no thread or module of it stays here; raises RuntimeError when it does not end well."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                told = pickle.dumps((work(), None))
            except BaseException:
                told = pickle.dumps((None, said.getvalue() + traceback.format_exc()))
        with open(writer, "wb") as pipe:
            pipe.write(told)
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    result, failure = pickle.loads(told) if told else (None, f"ended by signal {os.WTERMSIG(status)}")
    if failure is not None:
        raise RuntimeError(failure)
    return cast(T, result)


def outcome_of(drawn: Drawn) -> Outcome:
    """Run the command here, within limits, and judge it: one line and exit 1 or 2, or a reason to accept."""
    try:
        status, said = in_fork(lambda: _limited(drawn.command))
    except RuntimeError as error:
        lines = str(error).splitlines()
        return Outcome(lines[-1] if len(lines) == 1 else "traceback", str(error)[-1500:], sound=False)
    lines = [line for line in said.splitlines() if line.startswith("simtool: ")]
    told = f"exit {status}"
    if status == 0:
        reason = why_accepted(drawn, said)
        return Outcome(f"{told}: {reason}", said[-300:], sound=reason is not None)
    return Outcome(told, said[-300:], sound=status == 1 or (status == 2 and len(lines) == 1))


def _limited(command: list[str]) -> tuple[int, str]:
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    signal.alarm(SECONDS)
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        status = run(command)
    return status, said.getvalue()

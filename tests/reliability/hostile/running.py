"""A command in a process of its own, with limits on its time and memory, and what it came to."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
from dataclasses import dataclass, field
from pathlib import Path

from simtool.cli.main import run
from tests.reliability.hostile.forks import forked
from tests.reliability.hostile.inputs import Drawn
from tests.reliability.hostile.judging import why_accepted

#: By the clock on the wall, of a machine that may be busy.
SECONDS, BYTES = 120, 8 << 30


@dataclass(frozen=True)
class Outcome:
    """What a command came to, and its last words. told: "exit 2", "traceback" ..., or why it was right to accept."""

    told: str
    said: str
    sound: bool
    seconds: float = 0.0
    peak_bytes: int = 0


@dataclass
class Judge:
    """Runs drawn commands and judges them. good: a folder with the inputs as they were before they were spoilt."""

    good: Path
    _ends: dict[tuple[str, ...], int] = field(default_factory=dict)

    def outcome_of(self, drawn: Drawn) -> Outcome:
        """Run the command here, within limits: one line and exit 2, a finding of its own, or a reason to accept."""
        try:
            ended = forked(lambda: _limited(drawn.command))
        except RuntimeError as error:
            lines = str(error).splitlines()
            return Outcome(lines[-1] if len(lines) == 1 else "traceback", str(error)[-1500:], sound=False)
        status, said = ended.result
        told, sound = self._judged(drawn, status, said)
        return Outcome(told, said[-300:], sound, ended.seconds, ended.peak_bytes)

    def _judged(self, drawn: Drawn, status: int, said: str) -> tuple[str, bool]:
        told = f"exit {status}"
        if status == 0 or (status == 1 and self._ends_with_1(drawn)):
            reason = why_accepted(drawn, said)
            return f"{told}: {reason}", reason is not None
        lines = said.splitlines()
        one = sum(line.startswith("simtool: ") for line in lines) == 1 and lines[-1].startswith("simtool: ")
        return told, status == 1 or (status == 2 and one)

    def _ends_with_1(self, drawn: Drawn) -> bool:
        """Whether the good inputs end with 1 too: then it is no finding about what was spoilt."""
        command = tuple(drawn.command[:-2] if drawn.kind == "options" else drawn.command)
        if command not in self._ends:
            self._ends[command] = forked(lambda: _limited(list(command), self.good)).result[0]
        return self._ends[command] == 1


def _limited(command: list[str], folder: Path | None = None) -> tuple[int, str]:
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    signal.alarm(SECONDS)
    if folder is not None:
        os.chdir(folder)
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        status = run(command)
    return status, said.getvalue()

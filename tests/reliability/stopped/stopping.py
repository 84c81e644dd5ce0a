"""Stop whole commands from outside, as a user or a system does, and hold what they leave to what they owe.

A command is killed, loses a helper process, or gets Ctrl-C (as from a terminal, which its helpers get too). After that
none of its processes may live on, no memory that it shared with them may stay, every trace can be read, and the same
command, run again to its end, removes whatever was left.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.reliability.hostile.inputs import make_inputs
from tests.reliability.killing import leftovers
from tests.reliability.stopped.commands import COMMANDS
from tests.reliability.stopped.whole import whole_outputs, wrong_traces
from tests.synthetic import make_trace

#: Exit statuses as a shell has them. Python ends itself by the signal where Ctrl-C came within an import.
KILLED = 128 + signal.SIGKILL
INTERRUPTED = 128 + signal.SIGINT
#: A command that got through: with what it found, or with a finding.
_DONE = (0, 1)
#: Of Python, where Ctrl-C came before its own start was done: "Fatal Python error".
_FATAL = 1
_MARK = "SIMTOOL_STOPPED_RUN"
_END_S = 20.0
_TOLD = "simtool: stopped by Ctrl-C"
#: torch makes its compiler's cache folder, empty, wherever it is imported; it belongs to all programs with torch.
_OF_TORCH = "torchinductor_"


class How(Enum):
    """What happens to the command."""

    KILL = "kill"
    HELPER = "helper"
    INTERRUPT = "interrupt"


@dataclass(frozen=True)
class Run:
    """A command at work. mark: a text in the environment of its processes alone. started_s: by the clock of files."""

    child: subprocess.Popen[str]
    mark: str
    folder: Path
    started_s: float

    def alive(self) -> list[int]:
        """The ids of its processes that live, its helpers' helpers too."""
        wanted = f"{_MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def helpers(self) -> list[int]:
        """The ids of the processes that work for it: devices and workers, not Python's tracker of shared memory."""
        found = []
        for pid in self.alive():
            with contextlib.suppress(OSError):
                if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    def shared(self) -> set[Path]:
        """Shared memory and semaphores that its processes have mapped."""
        found: set[str] = set()
        for pid in self.alive():
            with contextlib.suppress(OSError):
                found |= set(re.findall(r"/dev/shm/\S+", Path(f"/proc/{pid}/maps").read_text()))
        return set(map(Path, found))


@dataclass(frozen=True)
class Stopped:
    """What came of it. ended: the exit status. wrong: what it owes and did not keep, in words."""

    ended: int
    wrong: list[str]


Moment = Callable[[Run], bool]


def after(seconds: float) -> Moment:
    """So long after the start."""
    return lambda run: time.time() - run.started_s >= seconds


def helped(run: Run) -> bool:
    """A helper is there: it loads still."""
    return bool(run.helpers())


def writing(run: Run) -> bool:
    """An output, or what will become one, has appeared since the start."""
    found = [*run.folder.glob("out*"), *map(run.folder.joinpath, leftovers(run.folder))]
    with contextlib.suppress(FileNotFoundError):
        return any(path.stat().st_ctime > run.started_s for path in found)
    return False


def prepare(folder: Path, *, live: bool) -> None:
    """Write what the commands read. live: what `fill` reads too, which is a live run."""
    make_inputs(folder, live=live)
    for name, placement, noise in (("toy3", "lag", 2), ("toy4", "static", 3)):  # repetitions
        make_trace(folder / name, placement, noise_seed=noise, requests=5, new_tokens=24)
    lines = [{"prompt_ids": [1 + index % 6, 2, 3], "max_new_tokens": 60} for index in range(12)]
    (folder / "many.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    (folder / "tmp").mkdir()


def start(folder: Path, name: str) -> Run:
    """Start a command; its processes keep their temporary files in a folder of their own."""
    mark = uuid.uuid4().hex
    environment = {**os.environ, _MARK: mark, "TMPDIR": str(folder / "tmp")}
    child = subprocess.Popen(
        [sys.executable, "-m", "simtool", *COMMANDS[name]],
        cwd=folder,
        env=environment,
        text=True,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    return Run(child, mark, folder, time.time())


def stop(folder: Path, name: str, how: How, moment: Moment) -> Stopped:
    """Start a command and stop it at that moment, unless it has ended by then. What stood there whole stands so yet."""
    before = whole_outputs(folder)
    run = start(folder, name)
    while run.child.poll() is None and not moment(run):
        time.sleep(0.01)
    shared = run.shared()
    _act(run, how)
    _, errors = run.child.communicate(timeout=120)
    ended = run.child.returncode if run.child.returncode >= 0 else 128 - run.child.returncode
    wrong = [*_kept_promise(how, ended, errors), *wrong_traces(folder)]
    wrong += [f"{lost} was whole, and is lost or half" for lost in sorted(before - whole_outputs(folder))]
    if alive := _wait_for_end(run):
        wrong.append(f"{len(alive)} processes live on")
    wrong += [f"{path} is left" for path in shared if path.exists()]
    return Stopped(ended, wrong)


def run_again(folder: Path, name: str) -> list[str]:
    """Run a command to its end; what is wrong with that, or left behind, in words."""
    run = start(folder, name)
    _, errors = run.child.communicate(timeout=600)
    fine = run.child.returncode in _DONE and "Traceback" not in errors
    wrong = [] if fine else [f"the next run ended with {run.child.returncode}: {errors[-300:]}"]
    temporary = [path.name for path in (folder / "tmp").iterdir() if not path.name.startswith(_OF_TORCH)]
    return [*wrong, *wrong_traces(folder), *(f"{path} is left" for path in [*leftovers(folder), *temporary])]


def _act(run: Run, how: How) -> None:
    with contextlib.suppress(ProcessLookupError):
        if how is How.INTERRUPT:
            os.killpg(run.child.pid, signal.SIGINT)
        elif how is How.HELPER:
            for pid in run.helpers()[-1:]:
                os.kill(pid, signal.SIGKILL)
        else:
            run.child.kill()


def _kept_promise(how: How, ended: int, errors: str) -> list[str]:
    """What it ended with and said. It may have been done before it was stopped."""
    stopped = {How.KILL: KILLED, How.HELPER: 2, How.INTERRUPT: INTERRUPTED}[how]
    said = [line for line in errors.splitlines() if line.startswith("simtool: ")]
    if how is How.INTERRUPT and ended in (INTERRUPTED, _FATAL) and "simtool" not in errors:
        return []  # Python itself was starting, and had read no line of this program
    wrong = [f"said {errors[-1500:]!r}"] if "Traceback" in errors and how is not How.KILL else []
    if ended not in (stopped, *_DONE):
        wrong.append(f"ended with {ended}: {errors[-300:]!r}")
    if ended == stopped and how is not How.KILL and len(said) != 1:
        wrong.append(f"told in {len(said)} lines: {errors[-300:]!r}")
    if ended == stopped and how is How.INTERRUPT and said[-1:] != [_TOLD]:
        wrong.append(f"told otherwise: {errors[-300:]!r}")
    return wrong


def _wait_for_end(run: Run) -> list[int]:
    """What is alive still when a while has passed; it is ended then."""
    end_s = time.monotonic() + _END_S
    while (alive := run.alive()) and time.monotonic() < end_s:
        time.sleep(0.05)
    for pid in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return alive

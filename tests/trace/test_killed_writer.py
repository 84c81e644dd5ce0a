"""A writer killed with SIGKILL at any file operation leaves a trace of whole flushes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from simtool.errors import TraceError
from simtool.trace.trace import open_trace
from simtool.trace.writer import TraceWriter
from tests.trace.small import small_manifest

_ROWS = 50

#: Records for ever, or kills itself at the n-th file operation inside the trace; argv: path, n, flushes to make.
_CHILD = f"""
import os, signal, sys
from pathlib import Path
from simtool.trace.writer import TraceWriter
from tests.trace.small import columns_of, small_manifest

path, countdown, flushes = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])

def hook(event, args):
    global countdown
    touches = event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir") and path.name in str(args)
    if touches:
        countdown -= 1
        if countdown == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
print("ready", flush=True)
writer = TraceWriter(path, small_manifest())
for flush in range(flushes):
    steps = range(flush * {_ROWS}, (flush + 1) * {_ROWS})
    writer.append("steps", columns_of("step kind start_ns end_ns batch validate_rows pruned placement",
        [(step, "decode", step, step + 1, 1, 1, False, "lag") for step in steps]))
    writer.append("events", columns_of("step op lane start_ns end_ns flow bytes",
        [(step, "finish", "host", step, step + 1, step, 0) for step in steps]))
    writer.flush()
    print("flushed", flush=True)
writer.close()
print("closed", flush=True)
"""


def _child(path: Path, kill_at: int, flushes: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _CHILD, str(path), str(kill_at), str(flushes)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])


def _check_whole_flushes(path: Path, flushed: int) -> None:
    trace = open_trace(path)
    steps, events = trace.table("steps"), trace.table("events")
    assert steps["step"].to_list() == events["step"].to_list() == list(range(steps.height))
    assert steps.height in (flushed * _ROWS, (flushed + 1) * _ROWS)


@pytest.mark.parametrize("kill_at", [1, 5, 7, 8, 10, 12, 14, 15, 99])
def test_killed_at_a_file_operation(tmp_path: Path, kill_at: int) -> None:
    path = tmp_path / "run"
    output, _ = (child := _child(path, kill_at, flushes=2)).communicate(timeout=60)
    if child.returncode == 0:
        assert "closed" in output
        assert open_trace(path).manifest.complete
        return
    assert child.returncode == -signal.SIGKILL
    if not path.exists():
        assert "flushed" not in output
        return
    _check_whole_flushes(path, output.count("flushed"))
    with pytest.raises(TraceError, match="--force"):
        TraceWriter(path, small_manifest())


def test_killed_from_outside_while_flushing(tmp_path: Path) -> None:
    path = tmp_path / "run"
    child = _child(path, kill_at=0, flushes=1_000_000)
    assert child.stdout is not None
    for line in child.stdout:
        if line == "flushed\n":
            break
    child.kill()
    flushed = 1 + child.stdout.read().count("flushed")
    child.wait(timeout=60)
    child.stdout.close()
    _check_whole_flushes(path, flushed)
    assert not open_trace(path).manifest.complete

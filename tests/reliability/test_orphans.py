"""Helper processes end with the process that started them, even when that one is killed in the middle of its work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]

#: Starts a helper and waits; the helper says its id, and works on for good.
_DEVICE = """
import time
from simtool.engine.devices.cpu import device as module
from tests.engine import golden

if __name__ == "__main__":
    device = module.CpuDevice(golden.spec("dspark_b7"))
    print("helper", *device.pids, flush=True)
    time.sleep(1000)
"""

_STUDY = """
import os, time
from simtool.study import runner

def work(_):
    print("helper", os.getpid(), flush=True)
    time.sleep(1000)

if __name__ == "__main__":
    with runner._pool(2) as pool:
        list(pool.map(work, range(2)))
"""


@pytest.mark.parametrize(("script", "helpers"), [(_DEVICE, 1), (_STUDY, 2)], ids=["device", "study"])
def test_helpers_of_a_killed_process_end(script: str, helpers: int, tmp_path: Path) -> None:
    (tmp_path / "starts_helpers.py").write_text(script)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")])}
    child = subprocess.Popen(
        [sys.executable, str(tmp_path / "starts_helpers.py")],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    assert child.stdout is not None
    pids = [int(child.stdout.readline().split()[1]) for _ in range(helpers)]
    child.send_signal(signal.SIGKILL)
    child.wait(timeout=30)
    for _ in range(600):
        if not any(map(_alive, pids)):
            break
        time.sleep(0.05)
    left = [pid for pid in pids if _alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    child.stdout.close()
    assert left == []


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

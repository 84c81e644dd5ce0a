"""A writer that is killed, or that the disk fails, at any file operation: the old output or the new, never half."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.scenarios import SCENARIOS


def _points(name: str, folder: Path, how: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.reliability.killing", name, str(folder), how, str(_TESTED[name])]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[2], check=False
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert len(found) > 1
    return found


#: Which are killed at every how manieth point; the campaign of `make hostile` kills all of them at each.
_TESTED = {"new text": 2, "export": 6, "recording": 25, "new recording": 17, "fill": 9}


@pytest.mark.parametrize("name", _TESTED)
def test_killed_at_every_point(name: str, tmp_path: Path) -> None:
    for point in _points(name, tmp_path / "work", "kill"):
        assert point["ended"] in (0, signal.SIGKILL), point
        assert point["state"] in SCENARIOS[name].allowed, point
        assert (point["again"], point["after"], point["left"]) == ("", "new", []), point


@pytest.mark.parametrize("name", _TESTED)
def test_a_disk_that_fails_at_every_point(name: str, tmp_path: Path) -> None:
    for point in _points(name, tmp_path / "work", "fail"):
        assert point["state"] in ({"new"} if point["ended"] == 0 else SCENARIOS[name].allowed), point
        assert point["ended"] == 0 or "No space left on device" in point["told"], point
        assert point["kept"] == [] or point["ended"] == 0, point  # old files that could not be removed
        assert (point["again"], point["after"], point["left"]) == ("", "new", []), point

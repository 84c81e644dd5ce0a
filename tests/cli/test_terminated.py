"""SIGTERM ends a command as Ctrl-C does: the device process goes, nothing is leaked, the bundle can be read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simtool.trace.bundle import open_bundle
from tests.engine import golden

PAIR = golden.FOLDER / "dspark_b7"


@pytest.mark.parametrize(("number", "name"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "Ctrl-C")])
def test_a_recording_that_is_stopped(tmp_path: Path, number: signal.Signals, name: str) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text((json.dumps({"prompt_ids": [1, 2, 3], "max_new_tokens": 200}) + "\n") * 400)
    out = tmp_path / "run"
    models = ["--target", str(PAIR / "target"), "--draft", str(PAIR / "draft")]
    command = [sys.executable, "-m", "simtool", "record", *models, "--policy", "static", "--out", str(out)]
    child = subprocess.Popen(
        [*command, "--prompt-ids", str(prompts)], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not out.exists():
        assert child.poll() is None
        time.sleep(0.05)
    child.send_signal(number)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 128 + number
    assert errors.splitlines()[1:] == [f"simtool: stopped by {name}"]  # nothing of leaked shared memory
    manifest = open_bundle(out).manifest
    assert not manifest.complete
    assert manifest.warnings == [f"stopped by {name}"]
    assert _gone(child.pid)


def _gone(group: int) -> bool:
    """Whether the process group empties: the device process and the memory's tracker take a moment to end."""
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False

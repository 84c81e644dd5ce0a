"""SIGTERM ends a command as Ctrl-C does: the device process goes, nothing is leaked, the trace can be read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simtool.trace.trace import open_trace
from simtool.trace.writer import TraceWriter
from tests.engine import golden
from tests.trace.small import small_manifest

PAIR = golden.FOLDER / "dspark_b7"


def test_a_recording_that_is_terminated(tmp_path: Path) -> None:
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
    child.terminate()
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGTERM
    assert errors.splitlines()[1:] == ["simtool: stopped by SIGTERM"]  # nothing of leaked shared memory
    manifest = open_trace(out).manifest
    assert not manifest.complete
    assert manifest.warnings == ["stopped by SIGTERM"]
    assert _gone(child.pid)


def test_ctrl_c_is_named_in_the_trace(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), TraceWriter(tmp_path / "run", small_manifest()):
        raise KeyboardInterrupt
    assert open_trace(tmp_path / "run").manifest.warnings == ["stopped by Ctrl-C"]


def _gone(group: int) -> bool:
    """Whether the process group empties: the device process and the memory's tracker take a moment to end."""
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False

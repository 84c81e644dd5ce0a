"""Progress on a real terminal moves to its end, and is silent when piped."""

import os
import pty
import subprocess
import sys

SCRIPT = """
from simtool.cli.shared.console import progress
with progress("replaying", total=4) as done:
    for count in range(5):
        done(count)
"""


def test_progress_on_a_terminal_counts_up():
    reader, writer = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=writer) as child:
        os.close(writer)
        shown = b""
        while True:
            try:
                part = os.read(reader, 4096)
            except OSError:  # the terminal's other end is closed
                break
            if not part:
                break
            shown += part
    os.close(reader)
    assert child.returncode == 0, shown.decode()
    assert b"replaying" in shown


def test_progress_is_silent_when_piped():
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert found.stdout + found.stderr == ""

"""Chromium without a window: what a page holds once its scripts have run."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
QUIET = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")
WHY_SKIPPED = "chromium is not installed"


def told_by(page: Path, folder: Path, budget_ms: int = 20_000) -> str:
    """Open a page and return the text of its element `told`; raises AssertionError on any error in the console."""
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", *QUIET, f"--user-data-dir={folder / 'user'}"]
    command += [f"--virtual-time-budget={budget_ms}", "--enable-logging=stderr", "--dump-dom", page.as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    complaints = [line for line in result.stderr.splitlines() if "CONSOLE" in line]
    assert complaints == []
    (text,) = re.findall(r'<pre id="told">(.*?)</pre>', result.stdout, re.DOTALL)
    return html.unescape(text)

"""What a path that was given leads to, before anything opens it."""

from __future__ import annotations

import stat
from pathlib import Path

from simtool.errors import TraceError
from simtool.files.reading import kind_of


def check_file(path: Path) -> None:
    """Raise TraceError for a pipe or a device: it would wait for a writer, and readers look into a file twice.

    What is not there, or is a folder, is the caller's to tell.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise TraceError(f"{path}: is {kind_of(mode)}, not a file; save what comes from it, and give that")

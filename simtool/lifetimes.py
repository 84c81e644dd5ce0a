"""Processes that help this one end with it, whatever either is doing when it does."""

from __future__ import annotations

import os
import threading
from multiprocessing import parent_process
from multiprocessing.connection import wait

_ORPHANED = 1


def end_with_parent() -> None:
    """Let this process end at once when the process that started it is gone, killed or not. For multiprocessing.

    The parent holds the other end of a pipe, which closes with it. Where nobody started this process, nothing happens.
    """
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent.sentinel,), name="simtool-parent", daemon=True).start()


def _watch(sentinel: int) -> None:
    wait([sentinel])
    os._exit(_ORPHANED)  # the main thread may be anywhere, and nobody is left to tell

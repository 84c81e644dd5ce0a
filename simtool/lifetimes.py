"""Processes that help this one end with it, whatever either is doing when it does, and hear no Ctrl-C themselves."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from multiprocessing.connection import wait
from types import FrameType

_ORPHANED = 1
_ASKED_TO_END = (signal.SIGINT, signal.SIGTERM)


def end_with_parent() -> None:
    """Let this process end at once when the process that started it is gone, killed or not. For multiprocessing.

    The parent holds the other end of a pipe, which closes with it. Where nobody started this process, nothing happens.
    """
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent.sentinel,), name="simtool-parent", daemon=True).start()


@contextmanager
def starting_helpers() -> Iterator[None]:
    """Start processes within. Ctrl-C and SIGTERM come after them, so that none is there that nobody knows of yet.

    The processes never hear Ctrl-C, which a terminal sends to all of them: this one does, and ends them.
    """
    if threading.current_thread() is not threading.main_thread():  # where Python handles no signals
        yield
        return
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    handlers = {number: signal.signal(number, note) for number in _ASKED_TO_END}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which a new process inherits
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def _watch(sentinel: int) -> None:
    wait([sentinel])
    os._exit(_ORPHANED)  # the main thread may be anywhere, and nobody is left to tell

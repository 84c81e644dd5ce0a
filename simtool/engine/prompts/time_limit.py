"""A limit on the time that foreign code may take, in any thread."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stopped_after(seconds: float, error: type[BaseException]) -> Iterator[None]:
    """Raise `error` in the code inside once it has run so long: between two of its instructions, not in a C call."""
    thread = threading.get_ident()
    over = threading.Lock()
    done = False

    def stop() -> None:
        with over:
            if not done:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with over:
            done = True
        timer.cancel()

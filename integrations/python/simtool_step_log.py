"""Writes a step log (docs/step-log.md): copy this file into any engine; it needs nothing but Python 3.9.

The engine's thread hands a step over and goes on; another thread writes it, one JSON object a line. A killed process
loses what was not yet written, at most half a line of which stays; started again on the same file it cuts that off and
goes on. Nothing here raises into the engine: a line that cannot be written is counted, and `close` returns how many.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

VERSION = 1


class StepLog:
    """One log of one run. header: what else its first line says, such as models, device_name, concurrency.

    sl: draft tokens per block. algorithm: dspark, dflash, or the engine's own word. Times are `now_ns()`.
    """

    def __init__(self, path: str, *, engine: str, sl: int, algorithm: str, **header: Any) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115  # closed by close()
        self.next_step = _resume(path)
        self._ops: list[tuple[str, int, int, int | None, int | None]] = []
        self._lost = 0
        self._lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="simtool step log", daemon=True)
        self._writer.start()
        clock = {"clock": "monotonic", "unix_offset_ns": time.time_ns() - time.monotonic_ns()}
        first = {"line": "header", "version": VERSION, "engine": engine, "sl": sl, "algorithm": algorithm}
        self._lines.put({**first, **clock, **header})

    @staticmethod
    def now_ns() -> int:
        """The log's clock."""
        return time.monotonic_ns()

    def request(self, name: str, **facts: Any) -> None:
        """Say what is known of a request: arrival_ns, prompt_tokens, max_new_tokens; later finished_ns, ..."""
        self._lines.put({"line": "request", "request": name, **facts})

    def op(self, name: str, start_ns: int, end_ns: int, wait: tuple[int, int] | None = None) -> None:
        """Add a host op of the step under way; wait: when it waited for the device."""
        self._ops.append((name, start_ns, end_ns, *(wait or (None, None))))

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Time a host op of the step under way."""
        start_ns = time.monotonic_ns()
        try:
            yield
        finally:
            self._ops.append((name, start_ns, time.monotonic_ns(), None, None))

    def step(self, start_ns: int, end_ns: int, request: list[str], **columns: Any) -> None:
        """Hand over one step: one value a sequence in each column (anchor, prefix_len, accepted, emitted, ...).

        Values are host values: a tensor on a device would be waited for.
        """
        line = {"line": "step", "step": self.next_step, "start_ns": start_ns, "end_ns": end_ns, "request": request}
        ops, self._ops = self._ops, []
        self.next_step += 1
        self._lines.put({**line, **columns, "ops": ops} if ops else {**line, **columns})

    def close(self) -> int:
        """Write what is left, and return how many lines could not be written."""
        if self._writer.is_alive():
            self._lines.put(None)
            self._writer.join()
        self._file.close()
        return self._lost

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                text = json.dumps(line, separators=(",", ":"), allow_nan=False, default=_plain)
                self._file.write(text.encode() + b"\n")
            except (OSError, TypeError, ValueError) as error:
                self._lost += 1
                if self._lost == 1:
                    print(f"simtool step log: a line is lost ({error}); further ones only counted", file=sys.stderr)


def _plain(value: Any) -> Any:
    """Lists of numpy arrays and tensors."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _resume(path: str) -> int:
    """Cut half a line off the end of a log that is there already; the number of the next step."""
    with open(path, "rb") as file:
        lines = file.read().split(b"\n")
    if lines[-1]:
        os.truncate(path, os.path.getsize(path) - len(lines[-1]))
    steps = [json.loads(line)["step"] for line in lines[:-1] if line.startswith(b'{"line":"step"')]
    return max(steps, default=-1) + 1

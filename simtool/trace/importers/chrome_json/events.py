"""The events of trace-event JSON (array or object form), in lists, as far as the file is sound.

Profilers are stopped, disks fill up, names hold quotes: a file may break off, or have a broken event in its middle.
Slices of whole events are decoded at once; a slice that does not decode is gone through event by event, what is sound
is kept, and every loss goes into the ledger. Never more than a slice and one event are held.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from simtool.errors import TraceError
from simtool.trace.importers.chrome_json.event import DECODER, ChromeEvent
from simtool.trace.importers.chrome_json.salvage import NUMBER_IS_NONE, Salvaged, salvage
from simtool.trace.importers.chrome_json.source import MAX_EXPANDED_BYTES, read_pieces
from simtool.trace.importers.ledger import Ledger

_SLICE_BYTES = 8 << 20
_MAX_EVENT_BYTES = 64 << 20
_MAX_HEADER_BYTES = 256 << 20
_CUTS_TRIED = 3
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_ARRAY = re.compile(rb"\s*\[")
#: Between two events, where the second looks like one.
_CUT = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts)")')
_NO_NUMBER = re.compile(rb"(:\s*)-?(?:inf|nan|infinity)(?=\s*[,}\]])", re.IGNORECASE)
_NO_PHASE = re.compile(rb'"ph"\s*:\s*-?(?:inf|nan|infinity)(?=\s*[,}\]])', re.IGNORECASE)
_TAIL_BYTES = 1 << 16


@dataclass
class EventFile:
    """A trace-event file. header: the keys beside traceEvents, complete once `lists` has run to its end."""

    path: Path
    ledger: Ledger
    max_expanded_bytes: int = MAX_EXPANDED_BYTES
    header: dict[str, Any] = field(default_factory=dict)

    def lists(self) -> Iterator[list[ChromeEvent]]:
        """Yield the events in the order of the file, many at a time.

        Raises TraceError when the file cannot be read or is no trace-event JSON.
        """
        self._pieces = read_pieces(self.path, self.ledger, self.max_expanded_bytes)
        self._buffer = bytearray()
        self._ended = False
        before = self._find_list()
        size = _SLICE_BYTES
        while True:
            self._fill(size)
            found = self._decode()
            del self._buffer[: found.used]
            if found.events:
                yield found.events
            if found.closed:
                break
            if self._ended and not self._buffer:
                self._keep_header(before, b"]}")
                return
            size = _SLICE_BYTES if found.used else len(self._buffer) + _SLICE_BYTES
        self._fill(_MAX_HEADER_BYTES)
        self._keep_header(before, b"]" + bytes(self._buffer))

    def _fill(self, size: int) -> None:
        while not self._ended and len(self._buffer) < size:
            piece = next(self._pieces, None)
            if piece is None:
                self._ended = True
            else:
                self._buffer += piece

    def _find_list(self) -> bytes:
        """Read up to the list of events and return what stands before it, its bracket included."""
        self._fill(_SLICE_BYTES)
        match = _ARRAY.match(self._buffer)
        while match is None and (match := _EVENTS_KEY.search(self._buffer)) is None:
            if self._ended or len(self._buffer) > _MAX_HEADER_BYTES or not self._buffer.lstrip().startswith(b"{"):
                raise TraceError(f"{self.path}: {_why_no_trace(bytes(self._buffer[:_MAX_HEADER_BYTES]))}")
            self._fill(len(self._buffer) + _SLICE_BYTES)
        before = bytes(self._buffer[: match.end()])
        del self._buffer[: match.end()]
        return before

    def _decode(self) -> Salvaged:
        """Decode events from the front of the buffer: as many as can be at once, else one by one."""
        for cut in self._cuts():
            data = b"".join((b"[", memoryview(self._buffer)[:cut], b"]"))
            events = _decode_whole(data)
            if events is None:
                mended, numbers = _NO_NUMBER.subn(rb"\1null", data)
                events = _decode_whole(mended) if numbers else None
                if events is not None:
                    unphased = len(_NO_PHASE.findall(data))  # such an event is rejected itself, once
                    self.ledger.reject(NUMBER_IS_NONE, f"among {len(events)} events", numbers - unphased)
            if events is not None:
                return Salvaged(events, self._buffer.index(b",", cut) + 1)
        return salvage(bytes(self._buffer), self._ended, self.ledger, _MAX_EVENT_BYTES)

    def _cuts(self) -> list[int]:
        """Where the buffer may be cut between two events, the last places first."""
        start = max(len(self._buffer) - _TAIL_BYTES, 0)
        found = [match.start() + 1 for match in _CUT.finditer(self._buffer, start)]
        return found[: -_CUTS_TRIED - 1 : -1]

    def _keep_header(self, before: bytes, after: bytes) -> None:
        if before.lstrip() == b"[":
            return
        for rest in (after, b"]}"):
            try:
                header = json.loads((before + rest).decode("utf-8", "replace"))
            except (ValueError, RecursionError):
                continue
            if rest is not after:
                self.ledger.reject("keys behind the events are lost", after[1:41].decode("utf-8", "replace"))
            if isinstance(header, dict):
                self.header = {key: value for key, value in header.items() if key != "traceEvents"}
            return


def _decode_whole(data: bytes) -> list[ChromeEvent] | None:
    try:
        return DECODER.decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _why_no_trace(head: bytes) -> str:
    give = "give a profiler's JSON, plain or .gz"
    if not head.strip():
        return f"is empty; {give}"
    try:
        document = json.loads(head)
    except (ValueError, RecursionError):
        return f"is not trace-event JSON, nor the beginning of any; {give}"
    if isinstance(document, dict) and "traceEvents" in document:
        return f"its traceEvents are no list, so it is no trace; {give}"
    return f"has no list of trace events; expected a JSON array, or an object with traceEvents; {give}"

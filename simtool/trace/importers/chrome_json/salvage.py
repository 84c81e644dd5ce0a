"""Going through a stretch of trace-event JSON event by event, where it does not decode whole.

The bytes are read as Latin-1, so that places in the text are places in the bytes; names get their real characters
back once they are cut out.
"""

from __future__ import annotations

import json
import re
import reprlib
from dataclasses import dataclass
from typing import Any

from simtool.trace.importers.chrome_json.event import ChromeEvent, make_event
from simtool.trace.importers.ledger import Ledger

NUMBER_IS_NONE = "number is inf or nan, which is no JSON; read as not said"
ARGS_ARE_NONE = "args are no table; read as not said"
_BETWEEN = re.compile(r"(?:[\s,]|\]\s*,?\s*\[)*")
#: Where the next event may begin: a table that looks like one.
_NEXT = re.compile(r'(?=\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s)"\s*:)')
_NO_NUMBER = re.compile(r"(:\s*)-?(?:inf|nan|infinity)(?=\s*[,}\]])", re.IGNORECASE)
_NOT_JSON = (ValueError, RecursionError)


@dataclass(frozen=True)
class Salvaged:
    """events: what was sound. used: bytes done with. closed: the list of events ended there."""

    events: list[ChromeEvent]
    used: int
    closed: bool = False


def salvage(data: bytes, ended: bool, ledger: Ledger, max_event_bytes: int) -> Salvaged:
    """Decode what is sound at the front of the data, and count what is not.

    ended: no more bytes follow. What may go on behind the data stays unused, unless it is too long.
    """
    return _Salvage(data.decode("latin-1"), ended, ledger, max_event_bytes).run()


class _Salvage:
    def __init__(self, text: str, ended: bool, ledger: Ledger, max_event_bytes: int) -> None:
        self._text, self._ended, self._ledger, self._max = text, ended, ledger, max_event_bytes
        self._nones = 0
        self._decoder = json.JSONDecoder(parse_float=str, parse_constant=self._none)
        self._events: list[ChromeEvent] = []

    def run(self) -> Salvaged:
        at = 0
        while True:
            between = _BETWEEN.match(self._text, at)
            start = between.end() if between else at
            if self._text.startswith("]", start):
                return Salvaged(self._events, start + 1, closed=True)
            if start == len(self._text) and not self._ended:
                return Salvaged(self._events, at)
            try:
                value, end = self._decode(self._text, start)
            except _NOT_JSON as error:
                following = self._skip_broken(start, error)
                if following is None:
                    return Salvaged(self._events, self._give_up(start))
                at = following
                continue
            if end == len(self._text) and not self._ended:
                return Salvaged(self._events, start)  # a number, say, may go on behind the data
            self._take(value)
            at = end

    def _none(self, _name: str) -> None:
        self._nones += 1

    def _decode(self, text: str, start: int) -> tuple[Any, int]:
        self._nones = 0
        return self._decoder.raw_decode(text, start)

    def _take(self, value: Any) -> None:
        if isinstance(value, dict):
            self._events.append(make_event(_readable_table(value)))
            unphased = self._nones and "ph" in value and value["ph"] is None  # rejected itself, once
            name, args = _readable(str(value.get("name"))), value.get("args")
            self._ledger.reject(NUMBER_IS_NONE, name, self._nones - bool(unphased))
            self._ledger.reject(ARGS_ARE_NONE, name, int(not isinstance(args, dict | None)))
        else:
            self._ledger.reject("event is not a JSON table", reprlib.repr(value))

    def _skip_broken(self, start: int, error: Exception) -> int | None:
        """Mend or reject the broken event at `start`; return where the next sound one begins, None: there is none."""
        broken = [(start, error)]
        for match in _NEXT.finditer(self._text, start + 1):
            try:
                value, _ = self._decode(self._text, match.end())
            except _NOT_JSON as another:
                if not self._text[max(match.end() - 20, 0) : match.end()].rstrip().endswith(":"):
                    broken.append((match.end(), another))  # a table behind a colon is a part of the broken event
                continue
            if "ph" in value:
                ends = [place for place, _ in broken[1:]] + [match.end()]
                for (place, reason), end in zip(broken, ends, strict=True):
                    self._mend_or_reject(place, end, reason)
                return match.end()
        return None

    def _mend_or_reject(self, start: int, end: int, reason: Exception) -> None:
        text, count = _NO_NUMBER.subn(r"\1null", self._text[start:end])
        try:
            value, _ = self._decode(text, 0)
        except _NOT_JSON:
            self._ledger.reject("event is not JSON", f"{_said(reason)}: {_readable(self._text[start : start + 80])}")
        else:
            self._nones += count
            self._take(value)

    def _give_up(self, start: int) -> int:
        """Nothing sound follows: wait for more bytes, or count the rest as lost. Return how many bytes are used up."""
        left = len(self._text) - start
        shown = f"{left} characters left: {_readable(self._text[start : start + 60])}"
        if self._ended:
            if self._text[start:].strip():
                self._ledger.reject("JSON breaks off, the rest is lost", shown)
            else:
                self._ledger.reject("JSON breaks off, the rest is lost", "at the end of the file")
        elif left > self._max:
            self._ledger.reject("event is too large to read", shown)
        else:
            return start
        return len(self._text)


def _said(error: Exception) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__


def _readable(text: str) -> str:
    """Read the text's bytes as the UTF-8 that they are, and give what is no character a sign of its own."""
    if text.isascii():
        return text
    try:
        return text.encode("latin-1").decode("utf-8", "replace")
    except UnicodeEncodeError:  # it also had \\u escapes, which are characters already
        return text.encode("utf-8", "replace").decode("utf-8")


def _readable_table(table: dict[str, Any]) -> dict[str, Any]:
    return {key: _readable_value(value) for key, value in table.items()}


def _readable_value(value: Any) -> Any:
    if isinstance(value, str):
        return _readable(value)
    return _readable_table(value) if isinstance(value, dict) else value

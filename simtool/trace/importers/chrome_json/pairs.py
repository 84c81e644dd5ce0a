"""B and E events -> spans: an E ends the last open B of its thread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal

from simtool.trace.importers.chrome_json.event import ChromeEvent
from simtool.trace.importers.chrome_json.times import microseconds
from simtool.trace.importers.ledger import Ledger


class Pairs:
    """Collects edges in any order, and pairs them in order of time."""

    def __init__(self) -> None:
        self._edges: list[ChromeEvent] = []

    def take(self, events: Sequence[ChromeEvent]) -> None:
        """Add edges."""
        self._edges += events

    def finish(self, ledger: Ledger) -> list[ChromeEvent]:
        """Return the spans; edges without a partner or a time are counted in the ledger."""
        timed: list[tuple[Decimal, ChromeEvent]] = []
        for event in self._edges:
            time_us = microseconds(event.ts)
            if time_us is None:
                ledger.reject("ts of a B or E event is no time", f"name {event.name}")
            else:
                timed.append((time_us, event))
        open_of: dict[str, list[tuple[Decimal, ChromeEvent]]] = defaultdict(list)
        spans: list[ChromeEvent] = []
        for time_us, event in sorted(timed, key=lambda item: item[0]):
            stack = open_of[f"{event.pid!r} {event.tid!r}"]
            if event.ph == "B":
                stack.append((time_us, event))
            elif stack:
                began_us, begin = stack.pop()
                spans.append(_span(begin, str(time_us - began_us)))
            else:
                ledger.reject("E event without its B", f"name {event.name}")
        for stack in open_of.values():
            for _, begin in stack:
                ledger.reject("B event without its E", f"name {begin.name}")
        return spans


def _span(begin: ChromeEvent, duration_us: str) -> ChromeEvent:
    return ChromeEvent(
        ph="X",
        cat=begin.cat,
        name=begin.name,
        pid=begin.pid,
        tid=begin.tid,
        ts=begin.ts,
        dur=duration_us,
        id=begin.id,
        args=begin.args,
    )

"""Events for a stream device, made once and used again: making one costs a driver call, and a step needs dozens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch


class MakeEvent(Protocol):
    """Makes an event, timed or not."""

    def __call__(self, *, enable_timing: bool) -> torch.Event:
        """Return a new one."""


class EventPool:
    """Gives events out and takes them back; it makes one only when it has none left. made: how many it has made."""

    def __init__(self, make: MakeEvent) -> None:
        self._make = make
        self._free: dict[bool, list[torch.Event]] = {True: [], False: []}
        self.made = 0

    def take(self, *, timed: bool) -> torch.Event:
        """Return an event that nobody else has."""
        if self._free[timed]:
            return self._free[timed].pop()
        self.made += 1
        return self._make(enable_timing=timed)

    def give_back(self, event: torch.Event, *, timed: bool) -> None:
        """Take an event back that has passed, and that nobody will wait for or read any more."""
        self._free[timed].append(event)

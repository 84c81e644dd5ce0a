"""How long work will take: told before it starts where that is known, and once from its own first seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from simtool.progress import Expected

#: What is measured on, and from when on a wait is worth a line.
_PROBE_S, _LONG_S = 3.0, 180.0
#: A report within this time is of work that was done before.
_AT_ONCE_S = 0.1


@dataclass
class Estimate:
    """Hears how much of `total` is done and says, once, when all of it will take more than three minutes.

    It goes by the work's own first three seconds, or as long as its first part takes; parts need not be alike, so the
    line says what it rests on.
    """

    description: str
    total: int
    clock: Callable[[], float] = time.monotonic
    _told: bool = False
    _before: int = 0
    _start_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._start_s = self.clock()

    def heard(self, done: int) -> str | None:
        """Take note of how much is done; return the line to tell, where there is one."""
        spent_s = self.clock() - self._start_s
        if spent_s < _AT_ONCE_S:
            self._before = done
        made = done - self._before
        if self._told or spent_s < _PROBE_S or made <= 0:
            return None
        self._told = True
        left_s = spent_s * (self.total - done) / made
        if spent_s + left_s < _LONG_S:
            return None
        share = f"{max(100 * made / self.total, 1):.0f} %"
        takes, took = _in_words(spent_s + left_s), _in_words(spent_s)
        return f"{self.description} will take about {takes}: the first {share} took {took}; Ctrl-C stops it"


def told_before(description: str, expected: Expected | None) -> str | None:
    """Return the line to tell before work that is known to take more than three minutes."""
    if expected is None or expected.seconds < _LONG_S:
        return None
    how = "at most" if expected.at_most else "about"
    return f"{description} will take {how} {_in_words(expected.seconds)}: {expected.basis}; Ctrl-C stops it"


def _in_words(seconds: float) -> str:
    """Say a time to about its first two digits."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours"

"""Time units and their formatting. Every stored time is an integer number of nanoseconds."""

from __future__ import annotations

from enum import StrEnum

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

_SCALES = (("s", NS_PER_S), ("ms", NS_PER_MS), ("us", NS_PER_US), ("ns", 1))


class TimeUnit(StrEnum):
    """What one unit of a numeric time in somebody else's file is."""

    S = "s"
    MS = "ms"

    @property
    def ns(self) -> int:
        """Nanoseconds in one."""
        return NS_PER_S if self is TimeUnit.S else NS_PER_MS


def format_ns(duration_ns: float) -> str:
    """Return a duration with three significant digits and the largest unit that keeps it above one.

    >>> format_ns(1_530_000)
    '1.53 ms'
    """
    for unit, scale in _SCALES:
        if abs(duration_ns) >= scale:
            return f"{duration_ns / scale:.3g} {unit}"
    return f"{duration_ns:.3g} ns"


def ns_to_ms(duration_ns: float) -> float:
    """Nanoseconds to milliseconds."""
    return duration_ns / NS_PER_MS

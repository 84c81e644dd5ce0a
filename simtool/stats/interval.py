"""The one interval, and the one confidence level."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

#: Of every interval that is printed, drawn or written.
LEVEL = 0.95
LEVEL_TEXT = f"{LEVEL * 100:.0f} %"


@dataclass(frozen=True)
class Interval:
    """An estimate and its confidence interval, in the unit of the values.

    low, high: None where nothing can be said about how far off the mean may be; `method` then says why. Else `method`
    says how they were made.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    method: str = ""
    level: float = LEVEL

    @classmethod
    def around(cls, mean: float, half: float, method: str) -> Interval:
        """Return mean +- half."""
        return cls(mean, mean - half, mean + half, method)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Both ends, or None where there are none."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def half(self) -> float | None:
        """Half the width, or None where there are no ends."""
        return None if self.bounds is None else (self.bounds[1] - self.bounds[0]) / 2

    def side(self, value: float = 0.0) -> int:
        """Return +1 or -1 when the whole interval lies above or below a value, else 0: it cannot be told."""
        if self.bounds is None:
            return 0
        low, high = self.bounds
        return (low > value) - (high < value)

    def contains(self, value: float) -> bool:
        """Whether a value lies in the interval; never where there is none."""
        return self.bounds is not None and self.bounds[0] <= value <= self.bounds[1]

    def text(self, write: Callable[[float], str]) -> str:
        """Return "low to high", each end as `write` writes it; a dash where there is no interval."""
        return "-" if self.bounds is None else " to ".join(map(write, self.bounds))

    def mapped(self, function: Callable[[float], float]) -> Interval:
        """Return the interval of a growing function of the value, such as exp of a log ratio."""
        ends = [None if end is None else function(end) for end in (self.low, self.high)]
        return replace(self, mean=function(self.mean), low=ends[0], high=ends[1])

    def because(self, method: str) -> Interval:
        """Return the same figures, explained in other words."""
        return replace(self, method=method)

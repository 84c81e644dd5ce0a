"""Work that a replay priced beyond the sizes that its costs were fitted on: what a manifest keeps of it, and how far
the whole step was stretched by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

#: The device work that makes most of a step: where only small ops are stretched, the step is not.
_FORWARDS = ("target", "draft")


@dataclass(frozen=True)
class Beyond:
    """Work that was priced outside the calibrated sizes. value: of the feature, the farthest out. step: its kind."""

    name: str
    feature: str
    value: float
    low: float
    high: float
    step: str = "decode"

    @property
    def excess(self) -> float:
        """How far outside it is, in the feature's unit."""
        return max(self.low - self.value, self.value - self.high)

    @property
    def times(self) -> float:
        """How many times beyond the calibrated sizes it is: 4 at 32 where 8 was the most, or the least, at 2."""
        return self.value / self.high if self.value > self.high and self.high > 0 else self.low / max(self.value, 1.0)

    @property
    def above(self) -> bool:
        """Whether it is larger than what was calibrated, not smaller."""
        return self.value > self.high

    @property
    def edge(self) -> float:
        """The last calibrated size on that side."""
        return self.high if self.above else self.low

    def __str__(self) -> str:
        return f"{self.name} at {self.value:g} {self.feature} (calibrated {self.low:g} to {self.high:g})"

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        return asdict(self)


def farthest(found: Iterable[Beyond]) -> tuple[Beyond, ...]:
    """Return one entry a kind of step, piece of work and feature: the one farthest out."""
    worst: dict[tuple[str, str, str], Beyond] = {}
    for each in found:
        key = each.step, each.name, each.feature
        known = worst.get(key)
        if known is None or each.excess > known.excess:
            worst[key] = each
    return tuple(worst.values())


def stretch_of(found: Iterable[Beyond]) -> Beyond | None:
    """Return what says best how far a whole step was stretched: its batch, else its forwards; None where it was not.

    An op that was recorded at small batches only may be far beyond them, and the step still is not. A forward smaller
    than any recorded, which every batch that drains has, is near the least that it can cost.
    """
    known = [each for each in found if each.step == "decode"]
    batches = [each for each in known if each.feature == "batch"]
    forwards = [each for each in known if each.name in _FORWARDS and each.above]
    return max(batches or forwards, key=lambda each: each.times, default=None)

"""What a step log and a profile may be joined by."""

from __future__ import annotations

from enum import StrEnum


class JoinBy(StrEnum):
    """What step log and profile have in common: the clock, or the numbers of their steps."""

    TIME = "time"
    STEP = "step"

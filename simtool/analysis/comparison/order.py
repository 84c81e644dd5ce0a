"""Were the repetitions of two arms interleaved? Read from when they ran, not from what anybody says.

A machine drifts between speeds by more than placements differ, so only neighbours in time compare. Runs that take turns
step by step have clocks that stand still while the other has its turn, hence stamps that overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from simtool.analysis.comparison.runs import Run, Whole

_OVERLAP = 0.5  # of the shorter run: below it two runs did not take turns, one only began before the other's end


class Order(StrEnum):
    """How the repetitions of two arms lie in time."""

    IN_TURNS = "recorded in turns, step by step"
    ALTERNATING = "recorded alternately"
    APART = "recorded one arm after the other"
    UNTIMED = ""


def order_of(first: Sequence[Run], second: Sequence[Run]) -> Order:
    """Say how two arms' measured runs lie in time; untimed where a run's stamps are not known."""
    one, other = _timed(first), _timed(second)
    if one is None or other is None:
        return Order.UNTIMED
    if len(one) == len(other) and all(map(_overlap, one, other)):
        return Order.IN_TURNS
    arms = [arm for _, arm in sorted([(run.start_ns, 0) for run in one] + [(run.start_ns, 1) for run in other])]
    pairs = zip(arms[::2], arms[1::2], strict=False)
    return Order.ALTERNATING if len(one) == len(other) and all(a != b for a, b in pairs) else Order.APART


def in_time_order(runs: Sequence[Run]) -> list[Run]:
    """Return runs as they were recorded; in the order given where that is not known."""
    starts = [run.whole.start_ns for run in runs if run.whole is not None]
    return (
        [run for _, run in sorted(zip(starts, runs, strict=True), key=lambda pair: pair[0])] if _all(runs) else [*runs]
    )


def _all(runs: Sequence[Run]) -> bool:
    return all(run.whole is not None for run in runs)


def _timed(runs: Sequence[Run]) -> list[Whole] | None:
    found = [run.whole for run in runs if run.whole is not None]
    return sorted(found, key=lambda run: run.start_ns) if len(found) == len(runs) else None


def _overlap(one: Whole, other: Whole) -> bool:
    shared = min(one.end_ns, other.end_ns) - max(one.start_ns, other.start_ns)
    return shared >= _OVERLAP * min(one.end_ns - one.start_ns, other.end_ns - other.start_ns)

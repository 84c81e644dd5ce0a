"""When a device had work: the union of its lanes' intervals, and how much of any span it covers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from simtool.step.ops import Lane

Ints = NDArray[np.int64]


class BusyTime:
    """The union of intervals [start, end), in ns. Exact: whole numbers throughout."""

    def __init__(self, start_ns: ArrayLike, end_ns: ArrayLike) -> None:
        starts, ends = np.asarray(start_ns, np.int64), np.asarray(end_ns, np.int64)
        order = np.argsort(starts, kind="stable")
        starts, reach = starts[order], np.maximum.accumulate(ends[order]) if len(order) else ends
        opens = np.ones(len(starts), bool)
        opens[1:] = starts[1:] > reach[:-1]
        closes = np.append(opens[1:], True) if len(starts) else opens
        self._starts, self._ends = starts[opens], reach[closes]
        self._before = np.concatenate(([0], np.cumsum(self._ends - self._starts)))

    def within(self, start_ns: ArrayLike, end_ns: ArrayLike) -> Ints:
        """Return the covered ns of each span [start, end)."""
        return self._until(np.asarray(end_ns, np.int64)) - self._until(np.asarray(start_ns, np.int64))

    @property
    def spans(self) -> tuple[Ints, Ints]:
        """Where the union begins and ends, span by span, in ns."""
        return self._starts, self._ends

    def _until(self, time_ns: Ints) -> Ints:
        """Covered ns before each time."""
        if not len(self._starts):
            return np.zeros_like(time_ns)
        index = np.searchsorted(self._starts, time_ns, "right") - 1
        inside = np.clip(np.minimum(time_ns, self._ends[index]) - self._starts[index], 0, None)
        return np.where(index < 0, 0, self._before[index] + inside)


def device_busy_over(stretches: Iterable[pl.DataFrame]) -> BusyTime:
    """Return when any device lane ran, from an `events` table that comes in stretches."""
    unions = [device_busy(events) for events in stretches]
    spans = [union.spans for union in unions] or [BusyTime([], []).spans]
    return BusyTime(*(np.concatenate(side) for side in zip(*spans, strict=True)))


def device_busy(events: pl.DataFrame) -> BusyTime:
    """Return when any device lane ran, from an `events` table."""
    device = events.select(pl.col("start_ns", "end_ns").filter(pl.col("lane") != Lane.HOST.value))
    return BusyTime(device["start_ns"].to_numpy(), device["end_ns"].to_numpy())

"""Runs that take turns: one step of each after the other, on one device, each on a clock of its own.

A machine drifts between speeds, by more than placements differ. Runs made one after another meet different
machines; runs that alternate step by step meet the same one, so their difference is the placements'. Each run has its
own slots and KV blocks, and its clock stands still while others have their turn: its trace reads as if it ran alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from simtool.engine.devices.protocol import WorkTiming
from simtool.engine.serving.engine import LiveRun


class PausableClock:
    """A clock that runs only during its owner's turns. Starts paused."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._lost_ns = 0
        self._paused_ns: int | None = now_ns()

    def __call__(self) -> int:
        """Read the clock, in ns."""
        now_ns = self._now_ns() if self._paused_ns is None else self._paused_ns
        return now_ns - self._lost_ns

    def resume(self) -> None:
        """Begin a turn."""
        if self._paused_ns is not None:
            self._lost_ns += self._now_ns() - self._paused_ns
            self._paused_ns = None

    def pause(self) -> None:
        """End a turn."""
        if self._paused_ns is None:
            self._paused_ns = self._now_ns()

    def place(self, timings: Sequence[WorkTiming]) -> list[WorkTiming]:
        """Put device times of this turn onto this clock."""
        lost = self._lost_ns
        return [replace(work, start_ns=work.start_ns - lost, end_ns=work.end_ns - lost) for work in timings]


def interleave(
    runs: Sequence[tuple[LiveRun, PausableClock]], progress: Callable[[int], None] = lambda served: None
) -> None:
    """Advance every run by a step in turn until all are finished; `progress` hears tokens done with, over all runs.

    The order of the turns shifts by one each round, so that no run always follows the same other.
    """
    rounds = 0
    while any(not run.finished for run, _ in runs):
        shift = rounds % len(runs)
        for run, clock in (*runs[shift:], *runs[:shift]):
            if not run.finished:
                clock.resume()
                run.step()
                clock.pause()
                run.keep()
        rounds += 1
        progress(sum(run.served for run, _ in runs))

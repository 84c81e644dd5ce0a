"""Steps -> observations: every duration, launch offset, wake-up and gap that a profile has a cost for.

What cannot be seen is left out, not guessed: a launch offset shows only when the device was idle, the distance
behind earlier work only when it was not, a wake-up only when the host really waited.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from simtool.calibrate.observed import Growing, Growth, Ints, Observed, Sizes
from simtool.calibrate.queued import Queued
from simtool.calibrate.step_events import OpRecord, StepRecord, WorkRecord
from simtool.calibrate.step_sizes import StepSizes
from simtool.step.cost_features import FEATURES
from simtool.step.idle_effects import DEVICE_IDLE, HOST_IDLE, LastWait, LastWork

#: Observations by the kind of step and the names of op and device work, in the order in which the first was made.
Table = Mapping[tuple[str, ...], Observed]


@dataclass(frozen=True)
class Observations:
    """Keys: pre, post, wake (kind, op); duration, queue (kind, work); launch (kind, op, work).

    runs_ns: when the steps of each run started that something was observed in.
    """

    pre: Table
    post: Table
    wake: Table
    duration: Table
    launch: Table
    queue: Table
    loop_gap: Observed
    runs_ns: Sequence[Ints]


def _growth() -> Growth:
    return defaultdict(Growing)


class Observer:
    """Makes observations of recorded runs, step by step. executors: lane -> what runs it in order."""

    def __init__(self, executors: Mapping[str, str]) -> None:
        self._seen, self._executors = _Seen(), executors
        self._sizes: list[StepSizes] = []
        self._runs_ns: list[Ints] = []

    def run(self, sizes: StepSizes) -> RunObserver:
        """Begin another run; its steps are added in order, then it is closed."""
        first = sum(each.steps.height for each in self._sizes)
        self._sizes.append(sizes)
        return RunObserver(self._seen, self._executors, sizes, first)

    def observations(self) -> Observations:
        """Return what there is of all runs that were closed."""
        seen = self._seen
        starts = [each.steps["start_ns"].to_numpy() for each in self._sizes]
        columns = zip(FEATURES, *(each.sizes for each in self._sizes), strict=True)
        sizes = Sizes(np.concatenate(starts), {name: np.concatenate(parts) for name, *parts in columns})

        def told(table: Growth, past: str | None = None) -> Table:
            return {key: growing.observed(sizes, past) for key, growing in table.items()}

        return Observations(
            pre=told(seen.pre, HOST_IDLE),
            post=told(seen.post),
            wake=told(seen.wake),
            duration=told(seen.duration, DEVICE_IDLE),
            launch=told(seen.launch),
            queue=told(seen.queue, DEVICE_IDLE),
            loop_gap=seen.loop_gap.observed(sizes),
            runs_ns=seen.runs_ns,
        )


@dataclass
class _Seen:
    """Observations on their way, as in `Observations`."""

    pre: Growth = field(default_factory=_growth)
    post: Growth = field(default_factory=_growth)
    wake: Growth = field(default_factory=_growth)
    duration: Growth = field(default_factory=_growth)
    launch: Growth = field(default_factory=_growth)
    queue: Growth = field(default_factory=_growth)
    loop_gap: Growing = field(default_factory=Growing)
    runs_ns: list[Ints] = field(default_factory=list)


class RunObserver:
    """One recorded run. first: how many steps the runs before it have."""

    def __init__(self, seen: _Seen, executors: Mapping[str, str], sizes: StepSizes, first: int) -> None:
        self._seen, self._executors, self._sizes, self._first = seen, executors, sizes, first
        self._waited = LastWait()
        self._worked: dict[str, LastWork] = defaultdict(LastWork)
        self._queued = Queued()
        self._places = array("q")

    def add(self, steps: Sequence[StepRecord]) -> None:
        """Add the next steps."""
        for step in steps:
            self._places.append(step.place)
            place = self._first + step.place
            giver: dict[str, WorkRecord] = {}
            for record in step.ops:
                inputs = record.inputs(giver)
                self._add_host(step.kind, place, record, record.early_works[-1:] or inputs)
                self._add_works(step.kind, place, record, inputs)
                record.gives_to(giver)

    def close(self, arrivals_ns: Ints) -> None:
        """End the run. A gap between steps in which a request arrived may be sleep, and is left out."""
        self._queued.tell(self._seen.launch, self._seen.queue)
        places = np.frombuffer(self._places, np.int64)
        columns = ("step", "start_ns", "end_ns")
        number, start_ns, end_ns = (self._sizes.steps[name].to_numpy()[places] for name in columns)
        self._seen.runs_ns.append(start_ns)
        arrivals = np.sort(arrivals_ns)
        none_came = np.searchsorted(arrivals, end_ns[:-1]) == np.searchsorted(arrivals, start_ns[1:])
        kept = np.flatnonzero(none_came & (np.diff(number) == 1))
        self._seen.loop_gap.add_all(start_ns[kept + 1] - end_ns[kept], self._first + places[kept])

    def _add_host(self, kind: str, place: int, record: OpRecord, awaited: Sequence[WorkRecord]) -> None:
        """Add one op. awaited: the device work that it waits for if it waits."""
        seen, key = self._seen, (kind, record.op.priced_as)
        if record.op.blocks and record.wait_end_ns is None and not awaited:
            return  # a step that was not profiled: how much of the op is its wait is not told
        seen.pre[key].add_behind(record.pre_end_ns - record.start_ns, place, self._waited.doublings)
        if not record.op.blocks or record.wait_start_ns is None or record.wait_end_ns is None or not awaited:
            return
        self._waited.waited_ns = record.wait_end_ns - record.wait_start_ns
        seen.post[key].add(record.end_ns - record.wait_end_ns, place)
        done_ns = max([work.end_ns for work in awaited])
        if done_ns > record.wait_start_ns:
            seen.wake[key].add(record.wait_end_ns - done_ns, place)

    def _add_works(self, kind: str, place: int, record: OpRecord, inputs: Sequence[WorkRecord]) -> None:
        """Add an op's device work: how long it took, and what its start shows.

        Where its executor, and the work whose data it needs, were done before the op became busy with what led to the
        launch, that is the launch; else it may be the distance behind that work.
        """
        after_ns = [work.end_ns for work in inputs]
        early = len(record.early_works)
        for number, work in enumerate(record.works):
            executor = self._executors[work.lane]
            past = self._worked[executor]
            busy_until_ns = max(past.end_ns, *after_ns, 0)
            op_start_ns, pre_end_ns = record.start_ns, record.pre_end_ns
            if number >= early:  # launched after a wait
                op_start_ns, pre_end_ns = record.resumed_ns, record.end_ns
            lull = past.doublings_at(work.start_ns)
            self._seen.duration[kind, work.name].add_behind(work.end_ns - work.start_ns, place, lull)
            key = (kind, record.op.priced_as, work.name)
            if busy_until_ns <= op_start_ns:
                self._seen.launch[key].add(work.start_ns - pre_end_ns, place)
            else:
                behind_ns = busy_until_ns - pre_end_ns
                self._queued.add(key, place, work.start_ns - busy_until_ns, behind_ns, past.doublings_behind())
            self._worked[executor] = LastWork(work.start_ns, work.end_ns)
            after_ns.append(work.end_ns)

"""Steps -> observations: every duration, launch offset, wake-up and gap that a profile has a cost for.

What cannot be seen is left out, not guessed: a launch offset shows only when the device was idle, the distance
behind earlier work only when it was not, a wake-up only when the host really waited.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from simtool.calibrate.regression import Observation
from simtool.calibrate.step_events import OpRecord, StepRecord, WorkRecord
from simtool.step.idle_effects import LastWait, LastWork

#: Observations by the kind of step and the names of op and device work.
Table = defaultdict[tuple[str, ...], list[Observation]]
_LATE_LAUNCH = 0.95


@dataclass(frozen=True)
class Start:
    """When one piece of device work started, and what it may have waited for. Times in ns.

    op_start_ns, pre_end_ns: when the op became busy with what led to the launch, and when that ended; of work launched
    after a wait, both after the wait. busy_until_ns: when its executor, and the work whose data it needs, were done.
    past: of its executor.
    """

    key: tuple[str, str, str]
    op_start_ns: int
    pre_end_ns: int
    busy_until_ns: int
    start_ns: int
    end_ns: int
    past: LastWork
    step: StepRecord

    def launched(self) -> Observation:
        """Return how long after the op's busy time it started."""
        return Observation(self.start_ns - self.pre_end_ns, self.step.features, self.step.start_ns)

    def queued(self) -> Observation:
        """Return how long after the work before it started."""
        return Observation(self.start_ns - self.busy_until_ns, self.past.behind(), self.step.start_ns)

    def lasted(self) -> Observation:
        """Return how long it took."""
        features = {**self.step.features, **self.past.at(self.start_ns)}
        return Observation(self.end_ns - self.start_ns, features, self.step.start_ns)


@dataclass
class Observations:
    """Keys: pre, post, wake (kind, op); duration, queue (kind, work); launch (kind, op, work)."""

    pre: Table = field(default_factory=lambda: defaultdict(list))
    post: Table = field(default_factory=lambda: defaultdict(list))
    wake: Table = field(default_factory=lambda: defaultdict(list))
    duration: Table = field(default_factory=lambda: defaultdict(list))
    launch: Table = field(default_factory=lambda: defaultdict(list))
    queue: Table = field(default_factory=lambda: defaultdict(list))
    loop_gap: list[Observation] = field(default_factory=list)

    def add_run(self, steps: list[StepRecord], arrivals_ns: Iterable[int], executors: Mapping[str, str]) -> None:
        """Add one recorded run, in time order. A gap in which a request arrived may be sleep, and is left out."""
        past = LastWait()
        for step in steps:
            giver: dict[str, WorkRecord] = {}
            for op in step.ops:
                self._add_host(step, op, past, op.early_works[-1:] or op.inputs(giver))
                op.gives_to(giver)
        self._add_starts(_starts(steps, executors))
        arrivals = np.sort(np.fromiter(arrivals_ns, dtype=np.int64))
        for before, after in pairwise(steps):
            first, last = np.searchsorted(arrivals, (before.end_ns, after.start_ns))
            if first == last and after.step == before.step + 1:
                self.loop_gap.append(Observation(after.start_ns - before.end_ns, {}, before.start_ns))

    def _add_host(self, step: StepRecord, record: OpRecord, past: LastWait, awaited: Sequence[WorkRecord]) -> None:
        """Add one op. awaited: the device work that it waits for if it waits."""

        def seen(value_ns: int) -> Observation:
            return Observation(value_ns, step.features, step.start_ns)

        key = (step.kind, record.op.priced_as)
        busy_ns = record.pre_end_ns - record.start_ns
        self.pre[key].append(Observation(busy_ns, {**step.features, **past.features()}, step.start_ns))
        if not record.op.blocks or record.wait_start_ns is None or record.wait_end_ns is None or not awaited:
            return
        past.waited_ns = record.wait_end_ns - record.wait_start_ns
        self.post[key].append(seen(record.end_ns - record.wait_end_ns))
        done_ns = max(work.end_ns for work in awaited)
        if done_ns > record.wait_start_ns:
            self.wake[key].append(seen(record.wait_end_ns - done_ns))

    def _add_starts(self, starts: list[Start]) -> None:
        """Sort starts into those that show the launch (device idle) and those that show the queue (device busy)."""
        queued = []
        for start in starts:
            self.duration[start.key[0], start.key[2]].append(start.lasted())
            if start.busy_until_ns <= start.op_start_ns:
                self.launch[start.key].append(start.launched())
            else:
                queued.append(start)
        late = {key: np.quantile([o.value_ns for o in seen], _LATE_LAUNCH) for key, seen in self.launch.items()}
        for start in queued:
            kind, op, work = start.key
            offset = late.get(start.key, max((v for k, v in late.items() if k[:2] == (kind, op)), default=0.0))
            if start.busy_until_ns >= max(start.op_start_ns, start.pre_end_ns + offset):
                self.queue[kind, work].append(start.queued())


def _starts(steps: list[StepRecord], executors: Mapping[str, str]) -> list[Start]:
    starts = []
    pasts: dict[str, LastWork] = defaultdict(LastWork)
    for step in steps:
        giver: dict[str, WorkRecord] = {}
        for record in step.ops:
            after = [work.end_ns for work in record.inputs(giver)]
            for place, work in enumerate(record.works):
                executor = executors[work.lane]
                past = pasts[executor]
                busy_until = max(past.end_ns, *after, 0)
                key = (step.kind, record.op.priced_as, work.name)
                early = place < len(record.early_works)
                busy = (record.start_ns, record.pre_end_ns) if early else (record.resumed_ns, record.end_ns)
                times = (*busy, busy_until, work.start_ns, work.end_ns)
                starts.append(Start(key, *times, past, step))
                pasts[executor] = LastWork(work.start_ns, work.end_ns)
                after.append(work.end_ns)
            record.gives_to(giver)
    return starts

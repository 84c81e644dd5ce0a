"""Device spans that are the host's: eager kernels that the device ran as fast as the host launched them.

A span of many eager kernels, timed by an event before and one after, holds the gaps in which the device waited for the
next launch. Where it ends as the launching does, its length is the host's launching, which the launching op is priced
with already. That cannot be taken apart afterwards, so it is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from simtool.calibrate.step_events import OpRecord, StepRecord, WorkRecord
from simtool.step.ops import Lane

_LEFT_OVER = 0.1  # of the span: what may still run when the host has launched the last kernel
_HOSTS_SHARE = 0.5  # of the host's busy time: a shorter span is one short kernel, whenever it ran
_MOST = 0.5  # of a work's spans


class LaunchBound:
    """Counts the spans of each work, and those that ended with their launching.

    None where one executor serves all lanes (the cpu device): there a launch is a message, and its kernels are not
    launched one by one.
    """

    def __init__(self, executors: Mapping[str, str]) -> None:
        self._one_by_one = executors[Lane.COMPUTE.value] != executors[Lane.PREPARE.value]
        self._spans: Counter[str] = Counter()
        self._bound: Counter[str] = Counter()

    def add(self, steps: Iterable[StepRecord]) -> None:
        """Look at some steps more."""
        if not self._one_by_one:
            return
        for record in (op for step in steps for op in step.ops):
            for place, work in enumerate(record.works):
                if work.lane == Lane.COMPUTE.value:
                    self._spans[work.name] += 1
                    self._bound[work.name] += is_launch_bound(record, work, late=place >= len(record.early_works))

    def warnings(self) -> Iterator[str]:
        """Yield a sentence for each work most of whose spans ended with their launching."""
        for name, count in self._spans.items():
            if self._bound[name] > _MOST * count:
                yield (
                    f"{self._bound[name] / count:.0%} of the spans of {name} ended when the host had launched the last "
                    "kernel: their length is the host's launching, priced in its op too, not work; capture graphs "
                    "(--graph-rows)"
                )


def is_launch_bound(record: OpRecord, work: WorkRecord, *, late: bool = False) -> bool:
    """Return whether a work's span began and (all but) ended while its op was still launching; late: after its wait."""
    begin_ns, end_ns = (record.resumed_ns, record.end_ns) if late else (record.start_ns, record.pre_end_ns)
    span_ns = work.end_ns - work.start_ns
    return (
        begin_ns <= work.start_ns < end_ns
        and work.end_ns - end_ns <= _LEFT_OVER * span_ns
        and span_ns >= _HOSTS_SHARE * (end_ns - begin_ns)
    )

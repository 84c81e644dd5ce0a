"""What a replay leaves behind: steps, rows, events and the requests' times, as arrays that go on in stretches."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from simtool.replay.columns import EventColumns, RowColumns, StepColumns, Stretch
from simtool.replay.prices.step_program import StepProgram
from simtool.replay.step_planner import DecodeRows, StepPlan

#: Takes a stretch that is done.
Sink = Callable[[Stretch], None]

_STRETCH_STEPS = 4096


class StepTimes:
    """Times of one step in ns. start_ns, end_ns, done: [events] of its program; times are told by work that is done.

    wait_start_ns, wait_end_ns: of the host's waits so far.
    """

    __slots__ = ("done", "end_ns", "start_ns", "wait_end_ns", "wait_start_ns")

    def __init__(self, events: int) -> None:
        self.start_ns, self.end_ns, self.done = [0] * events, [0] * events, [False] * events
        self.wait_start_ns: list[int] = []
        self.wait_end_ns: list[int] = []


class ReplayRecorder:
    """Collects steps and hands them to the sink, some thousands at a time.

    programs: where the kinds of step go, in the order of their first. admitted_ns, first_token_ns, finished_ns, slot:
    by the requests' index; all are set when the replay ends.
    """

    def __init__(self, requests: int, programs: list[StepProgram], sink: Sink) -> None:
        self.programs = programs
        self.admitted_ns, self.first_token_ns, self.finished_ns, self.slot = np.zeros((4, requests), np.int64)
        self._sink = sink
        self._index: dict[int, int] = {}  # a program's identity -> its place
        self._stretch = _Stretch(0, 0)

    def add_step(self, plan: StepPlan, program: StepProgram, times: StepTimes, start_ns: int, end_ns: int) -> None:
        """Keep a step whose work is all done; start_ns, end_ns: on the host."""
        index = self._index.get(id(program))
        if index is None:
            index = self._index[id(program)] = len(self.programs)
            self.programs.append(program)
        tokens_ns = times.wait_end_ns[program.tokens]
        if plan.admitted:
            self.admitted_ns[plan.admitted] = start_ns
            self.first_token_ns[plan.admitted] = tokens_ns
            self.slot[plan.admitted] = plan.slots
        if plan.finished:
            self.finished_ns[plan.finished] = tokens_ns
        self._stretch.add(index, plan, times, (start_ns, end_ns))
        self._stretch.flows += len(program.ops)
        if self._stretch.steps == _STRETCH_STEPS:
            self.flush()

    def flush(self) -> None:
        """Hand what there is to the sink."""
        done, self._stretch = self._stretch, _Stretch(self._stretch.next_step, self._stretch.flows)
        if done.steps:
            self._sink(done.stretch())


class _Stretch:
    """A stretch under way: columns that only grow, those of the steps side by side, rows as they were planned."""

    def __init__(self, first_step: int, first_flow: int) -> None:
        self.first_step, self.first_flow = first_step, first_flow
        self.steps, self.flows = 0, first_flow
        self._steps = array("q")
        self._rows: list[DecodeRows] = []
        self._row_steps: list[int] = []
        self._events = [array("q") for _ in EventColumns.__dataclass_fields__]

    @property
    def next_step(self) -> int:
        return self.first_step + self.steps

    def add(self, program: int, plan: StepPlan, times: StepTimes, span_ns: tuple[int, int]) -> None:
        self._steps.fromlist([program, *span_ns, plan.batch, plan.validate_rows, plan.graph_bucket or 0])
        starts, ends, wait_starts, wait_ends = self._events
        starts.fromlist(times.start_ns)
        ends.fromlist(times.end_ns)
        wait_starts.fromlist(times.wait_start_ns)
        wait_ends.fromlist(times.wait_end_ns)
        if plan.rows is not None:
            self._rows.append(plan.rows)
            self._row_steps.append(self.next_step)
        self.steps += 1

    def stretch(self) -> Stretch:
        steps = _array(self._steps).reshape(self.steps, len(StepColumns.__dataclass_fields__))
        return Stretch(
            first_step=self.first_step,
            first_flow=self.first_flow,
            steps=StepColumns(*np.ascontiguousarray(steps.T)),
            events=EventColumns(*map(_array, self._events)),
            rows=self._row_columns(),
        )

    def _row_columns(self) -> RowColumns:
        batches = [len(rows.place) for rows in self._rows]
        columns = {
            name: np.fromiter(chain.from_iterable(getattr(rows, name) for rows in self._rows), np.int64, sum(batches))
            for name in DecodeRows.__dataclass_fields__
        }
        return RowColumns(step=np.repeat(self._row_steps, batches), **columns)


def _array(column: array[int]) -> NDArray[np.int64]:
    return np.frombuffer(column, np.int64)

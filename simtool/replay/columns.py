"""What a replay leaves behind as arrays, and the frames of the trace's schema that they become.

A stretch is a run of consecutive steps. Times of events and waits stand step after step, each step's in the order of
its program's events, so that what never changes (names, lanes, flows) is written down once a program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import polars as pl
from numpy.typing import NDArray

from simtool.replay.outcomes.outcomes import Outcomes
from simtool.replay.prices.step_program import StepProgram
from simtool.trace.frames import conform
from simtool.trace.schema import TABLES

_Wholes = NDArray[np.int64]
_AnyWholes = NDArray[np.int64] | NDArray[np.int32]


@dataclass(frozen=True)
class StepColumns:
    """Steps: [steps] each. program: index among the programs. graph_bucket: 0 where the target ran eagerly."""

    program: _Wholes
    start_ns: _Wholes
    end_ns: _Wholes
    batch: _AnyWholes
    validate_rows: _AnyWholes
    graph_bucket: _AnyWholes


@dataclass(frozen=True)
class EventColumns:
    """Times of events, [events], and of the waits among them, [waits]; by step, and in it by its program's order."""

    start_ns: _Wholes
    end_ns: _Wholes
    wait_start_ns: _Wholes
    wait_end_ns: _Wholes


@dataclass(frozen=True)
class RowColumns:
    """Sequences in decode steps: [rows] each. step: of the whole replay. request: index. place: of the outcome."""

    step: _Wholes
    request: _AnyWholes
    slot: _AnyWholes
    place: _AnyWholes
    prefix_len: _AnyWholes
    accepted: _AnyWholes
    emitted: _AnyWholes
    fresh: _AnyWholes | NDArray[np.bool_]


@dataclass(frozen=True)
class Stretch:
    """Consecutive steps. first_step: index of the first. first_flow: how many host ops ran before it."""

    first_step: int
    first_flow: int
    steps: StepColumns
    events: EventColumns
    rows: RowColumns


def cut(stretch: Stretch, programs: Sequence[StepProgram], steps: int = 16384) -> Iterator[Stretch]:
    """Cut a stretch into some of so many steps. programs: what its steps ran."""
    of_step = stretch.steps.program
    events, waits, flows = (
        np.concatenate(([0], np.cumsum(np.array([count(program) for program in programs], np.int64)[of_step])))
        for count in (_events, _waits, _flows)
    )
    for low in range(0, len(of_step), steps):
        high = min(low + steps, len(of_step))
        first, last = np.searchsorted(stretch.rows.step, (stretch.first_step + low, stretch.first_step + high))
        times, spans = slice(events[low], events[high]), slice(waits[low], waits[high])
        yield Stretch(
            first_step=stretch.first_step + low,
            first_flow=stretch.first_flow + int(flows[low]),
            steps=StepColumns(**{name: getattr(stretch.steps, name)[low:high] for name in _names(StepColumns)}),
            events=EventColumns(
                stretch.events.start_ns[times],
                stretch.events.end_ns[times],
                stretch.events.wait_start_ns[spans],
                stretch.events.wait_end_ns[spans],
            ),
            rows=RowColumns(**{name: getattr(stretch.rows, name)[first:last] for name in _names(RowColumns)}),
        )


def _events(program: StepProgram) -> int:
    return len(program.events)


def _waits(program: StepProgram) -> int:
    return sum(each.waits for each in program.events)


def _flows(program: StepProgram) -> int:
    return len(program.ops)


def _names(columns: type[StepColumns] | type[RowColumns]) -> list[str]:
    return [each.name for each in fields(columns)]


class Framer:
    """Makes frames of stretches. programs: what the steps ran; placement: its name."""

    def __init__(self, placement: str, programs: Sequence[StepProgram], outcomes: Outcomes) -> None:
        self._placement, self._programs, self._outcomes = placement, programs, outcomes
        self._names = pl.Series([request.request_id for request in outcomes.requests], dtype=pl.String)

    def frames(self, stretch: Stretch) -> Mapping[str, pl.DataFrame]:
        """Return steps, rows and events of a stretch, sorted as a trace keeps them."""
        frames = {"steps": self._steps(stretch), "rows": self._rows(stretch.rows), "events": self._events(stretch)}
        return {name: conform(TABLES[name], frame, name) for name, frame in frames.items()}

    def _steps(self, stretch: Stretch) -> pl.DataFrame:
        steps = stretch.steps
        count = len(steps.program)
        kinds = pl.Series([program.kind for program in self._programs], dtype=pl.String)
        pruned = np.array([program.pruned for program in self._programs])
        return pl.DataFrame(
            {
                "step": _int32(np.arange(stretch.first_step, stretch.first_step + count)),
                "kind": kinds[_places(steps.program)],
                "start_ns": steps.start_ns,
                "end_ns": steps.end_ns,
                "batch": _int32(steps.batch),
                "validate_rows": _int32(steps.validate_rows),
                "pruned": pruned[steps.program],
                "placement": pl.Series([self._placement]).new_from_index(0, count),
                "graph_bucket": _nullable(_int32(steps.graph_bucket), steps.graph_bucket > 0),
            }
        )

    def _rows(self, rows: RowColumns) -> pl.DataFrame:
        order = _by_slot(rows)
        request, place = rows.request[order], rows.place[order]
        anchor = _int32(place - self._outcomes.base[request])
        return pl.DataFrame(
            {
                "step": _int32(rows.step[order]),
                "request_id": self._names[_places(request)],
                "slot": _int32(rows.slot[order]),
                "anchor_position": anchor,
                "kv_len": anchor,
                **self._outcomes.blocks.columns(self._outcomes.block[place]),
                "prefix_len": _int32(rows.prefix_len[order]),
                "accepted": _int32(rows.accepted[order]),
                "emitted": _int32(rows.emitted[order]),
                "fresh": rows.fresh[order].astype(np.bool_, copy=False),
            }
        )

    def _events(self, stretch: Stretch) -> pl.DataFrame:
        programs, of_step = self._programs, stretch.steps.program
        slots = [slot for program in programs for slot in program.events]
        counts = np.array([len(program.events) for program in programs])
        flows = np.array([len(program.ops) for program in programs])[of_step]
        per_step = counts[of_step]
        events = int(per_step.sum())
        # where the slots of a step's program begin, less where its events begin
        ahead = (np.cumsum(counts) - counts)[of_step] - (np.cumsum(per_step) - per_step)
        slot = np.repeat(ahead, per_step)
        slot += np.arange(events)
        flow = np.repeat(stretch.first_flow + np.cumsum(flows) - flows + 1, per_step)
        flow += np.array([each.flow for each in slots]).take(slot)
        waits = _places(np.flatnonzero(np.array([each.waits for each in slots], np.bool_).take(slot)))
        picked = _places(slot)
        step = _int32(np.arange(stretch.first_step, stretch.first_step + len(of_step)))
        return pl.DataFrame(
            {
                "step": np.repeat(step, per_step),
                "op": pl.Series([each.name for each in slots], dtype=pl.String)[picked],
                "lane": pl.Series([each.lane.value for each in slots], dtype=pl.String)[picked],
                "start_ns": stretch.events.start_ns,
                "end_ns": stretch.events.end_ns,
                "wait_start_ns": _there_only(waits, stretch.events.wait_start_ns, events),
                "wait_end_ns": _there_only(waits, stretch.events.wait_end_ns, events),
                "flow": flow,
                "bytes": np.zeros(events, np.int64),
            }
        )


def _by_slot(rows: RowColumns) -> _Wholes:
    """The order of rows by step and then slot: each has a cell of its own, so that nothing is compared."""
    if not len(rows.step):
        return np.empty(0, np.int64)
    first, slots = rows.step[0], int(rows.slot.max()) + 1
    cells = np.full((int(rows.step[-1] - first) + 1) * slots, -1)
    cells[(rows.step - first) * slots + rows.slot] = np.arange(len(rows.step))
    return cells[cells >= 0]


def _places(numbers: _AnyWholes) -> pl.Series:
    return pl.Series(numbers.astype(np.uint32))


def _there_only(at: pl.Series, values: _Wholes, count: int) -> pl.Series:
    """So many values, of which these are at these places and the others null."""
    return pl.Series([None], dtype=pl.Int64).new_from_index(0, count).scatter(at, pl.Series(values))


def _int32(values: _AnyWholes) -> NDArray[np.int32]:
    return values.astype(np.int32, copy=False)


def _nullable(values: NDArray[np.int32] | _Wholes, there: NDArray[np.bool_]) -> pl.Series:
    series = pl.Series(values)
    return series if there.all() else series.scatter(np.flatnonzero(~there), None)

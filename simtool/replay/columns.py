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


@dataclass(frozen=True)
class StepColumns:
    """Steps: [steps] each. program: index among the programs. graph_bucket: 0 where the target ran eagerly."""

    program: _Wholes
    start_ns: _Wholes
    end_ns: _Wholes
    batch: _Wholes
    validate_rows: _Wholes
    graph_bucket: _Wholes


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
    request: _Wholes
    slot: _Wholes
    place: _Wholes
    prefix_len: _Wholes
    accepted: _Wholes
    emitted: _Wholes
    fresh: _Wholes


@dataclass(frozen=True)
class Stretch:
    """Consecutive steps. first_step: index of the first. first_flow: how many host ops ran before it."""

    first_step: int
    first_flow: int
    steps: StepColumns
    events: EventColumns
    rows: RowColumns


def cut(stretch: Stretch, programs: Sequence[StepProgram], steps: int = 4096) -> Iterator[Stretch]:
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
                "kind": kinds.gather(steps.program),
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
        order = np.lexsort((rows.slot, rows.step))
        request, place = rows.request[order], rows.place[order]
        anchor = _int32(place - self._outcomes.base[request])
        block = self._outcomes.block[place]
        return pl.DataFrame(
            {
                "step": _int32(rows.step[order]),
                "request_id": self._names.gather(request),
                "slot": _int32(rows.slot[order]),
                "anchor_position": anchor,
                "kv_len": anchor,
                **self._outcomes.blocks.columns(block),
                "prefix_len": _int32(rows.prefix_len[order]),
                "accepted": _int32(rows.accepted[order]),
                "emitted": _int32(rows.emitted[order]),
                "fresh": rows.fresh[order].astype(np.bool_),
            }
        )

    def _events(self, stretch: Stretch) -> pl.DataFrame:
        programs, of_step = self._programs, stretch.steps.program
        counts = np.array([len(program.events) for program in programs])
        slots = [slot for program in programs for slot in program.events]
        first_slot = np.cumsum(counts) - counts
        flows = np.array([len(program.ops) for program in programs])[of_step]
        per_step = counts[of_step]
        first_event = np.cumsum(per_step) - per_step
        step = np.repeat(np.arange(len(of_step)), per_step)
        slot = np.arange(int(per_step.sum())) + (first_slot[of_step] - first_event)[step]
        first_flow = stretch.first_flow + np.cumsum(flows) - flows + 1
        waits = np.array([each.waits for each in slots], np.bool_)[slot]
        wait_start_ns, wait_end_ns = np.zeros((2, len(slot)), np.int64)
        wait_start_ns[waits], wait_end_ns[waits] = stretch.events.wait_start_ns, stretch.events.wait_end_ns
        return pl.DataFrame(
            {
                "step": _int32(stretch.first_step + step),
                "op": pl.Series([each.name for each in slots], dtype=pl.String).gather(slot),
                "lane": pl.Series([each.lane.value for each in slots], dtype=pl.String).gather(slot),
                "start_ns": stretch.events.start_ns,
                "end_ns": stretch.events.end_ns,
                "wait_start_ns": _nullable(wait_start_ns, waits),
                "wait_end_ns": _nullable(wait_end_ns, waits),
                "flow": first_flow[step] + np.array([each.flow for each in slots])[slot],
                "bytes": np.zeros(len(slot), np.int64),
            }
        )


def _int32(values: _Wholes) -> NDArray[np.int32]:
    return values.astype(np.int32)


def _nullable(values: NDArray[np.int32] | _Wholes, there: NDArray[np.bool_]) -> pl.Series:
    series = pl.Series(values)
    return series if there.all() else series.scatter(np.flatnonzero(~there), None)

"""What a plan of a replay holds: which step comes when, whom it serves and what each gets out of it. Not its times."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simtool.replay.compiled.served import Served
from simtool.replay.compiled.sizes import COLUMNS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Small = NDArray[np.int32]

#: Kinds of step.
PREFILL, FULL, PRUNED = 0, 1, 2
KINDS = 3


class Steps(NamedTuple):
    """[steps] each. tokens: emitted. offered, accepted: drafts. bucket: rows of the target's graph; 0: none.

    first_row: where its rows begin, [steps + 1]. draw_at: of its noise, among the blocks' draws; draw_offset: within
    that block. not_before_ns: an arrival that it waits for. sizes: [steps, columns].
    """

    kind: NDArray[np.int8]
    batch: Small
    validate_rows: Ints
    bucket: Small
    tokens: Ints
    offered: Ints
    accepted: Ints
    first_row: Ints
    draw_at: Ints
    draw_offset: Ints
    not_before_ns: Ints
    sizes: Floats


class Rows(NamedTuple):
    """[rows] each: one sequence in a decode step. place: of its outcome."""

    request: Small
    slot: Small
    place: Small
    prefix_len: Small
    accepted: Small
    emitted: Small
    fresh: NDArray[np.bool_]


class Stays(NamedTuple):
    """[requests] each: the step that admitted it, the one that gave it its last token, and the slot that it held."""

    admitted: Ints
    finished: Ints
    slot: Ints


class Plan(NamedTuple):
    """Everything but times."""

    steps: Steps
    rows: Rows
    stays: Stays


def room_for(served: Served) -> Plan:
    """Return room for the longest plan there can be: every step emits a token at least. What is not used costs none."""
    count, rows = len(served.names), served.places
    steps = rows + count
    return Plan(
        Steps(
            kind=np.empty(steps, np.int8),
            batch=np.empty(steps, np.int32),
            validate_rows=np.empty(steps, np.int64),
            bucket=np.empty(steps, np.int32),
            tokens=np.empty(steps, np.int64),
            offered=np.empty(steps, np.int64),
            accepted=np.empty(steps, np.int64),
            first_row=np.zeros(steps + 1, np.int64),
            draw_at=np.empty(steps, np.int64),
            draw_offset=np.empty(steps, np.int64),
            not_before_ns=np.empty(steps, np.int64),
            sizes=np.empty((steps, COLUMNS)),
        ),
        Rows(
            request=np.empty(rows, np.int32),
            slot=np.empty(rows, np.int32),
            place=np.empty(rows, np.int32),
            prefix_len=np.empty(rows, np.int32),
            accepted=np.empty(rows, np.int32),
            emitted=np.empty(rows, np.int32),
            fresh=np.empty(rows, np.bool_),
        ),
        Stays(*np.full((3, count), -1, np.int64)),
    )


def cut(plan: Plan, steps: int, rows: int) -> Plan:
    """Return the plan without the room that was not used."""
    kept = {name: values[:steps] for name, values in plan.steps._asdict().items()}
    kept["first_row"] = plan.steps.first_row[: steps + 1]
    return Plan(
        Steps(**kept), Rows(**{name: values[:rows] for name, values in plan.rows._asdict().items()}), plan.stays
    )

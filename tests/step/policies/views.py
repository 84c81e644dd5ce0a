"""Steps to decide on, written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from simtool.step.controller import ControllerSettings
from simtool.step.policies.policy import Aged, StepView
from simtool.step.step_table import StepTable

Rows = Sequence[Sequence[float] | None]


def aged(rows: Rows, drafts: int) -> Aged:
    own = [i for i, row in enumerate(rows) if row is not None]
    known = [row for row in rows if row is not None]
    return Aged(own, np.array(known, np.float64).reshape(len(known), drafts), len(rows))


def view(
    by_age: Mapping[int, Rows],
    *,
    table: StepTable | None = None,
    drafts: int | None = None,
    batch: int | None = None,
    graph_rows: tuple[int, ...] = (),
    match_runs: Sequence[int] | None = None,
    settings: ControllerSettings | None = None,
) -> StepView:
    """A step of the confidences given by age; None: a sequence has none so old. No table: every row takes 1 ms."""
    rows = next(iter(by_age.values()), [[0.0] * (drafts or 1)] * (batch or len(match_runs or ())))
    n = drafts or next(len(row) for each in by_age.values() for row in each if row is not None)
    return StepView(
        drafts=n,
        kv_lens=[10] * len(rows),
        keys=list(range(len(rows))),
        aged={age: aged(each, n) for age, each in by_age.items()},
        settings=settings or ControllerSettings(table=table or line(1.0)),
        graph_rows=graph_rows,
        match_runs=match_runs,
    )


def line(row_ms: float, base_ms: float = 0.0) -> StepTable:
    """A step of so much, and so much a row."""
    return StepTable((1,), (base_ms,), (0, 1), (0.0, row_ms))


def conditional(survival: Sequence[float]) -> list[float]:
    """The confidences whose products these are."""
    before = [1.0, *survival[:-1]]
    return [now / earlier for now, earlier in zip(survival, before, strict=True)]

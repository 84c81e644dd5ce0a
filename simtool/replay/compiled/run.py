"""A replay by the kernels, as the arrays that it leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simtool.replay.columns import EventColumns, RowColumns, StepColumns, Stretch
from simtool.replay.compiled.clock import Times
from simtool.replay.compiled.plan import Plan
from simtool.replay.prices.price_list import PriceList
from simtool.replay.prices.step_program import StepProgram
from simtool.replay.request_queue import RequestQueue
from simtool.step.beyond import Beyond, farthest

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class CompiledRun:
    """prices: by kind of step, in the order of its first. times: of events too, where they were asked for."""

    queue: RequestQueue
    plan: Plan
    prices: Mapping[int, PriceList]
    times: Times

    @property
    def looked_up(self) -> int:
        """How many anchors were asked for."""
        return len(self.plan.rows.place)

    @property
    def substituted(self) -> int:
        """How many of them were made up for."""
        outcomes = self.queue.outcomes
        return int(outcomes.substituted[self.plan.rows.place].sum()) if outcomes.any_substituted else 0

    @property
    def programs(self) -> list[StepProgram]:
        """The kinds of step, in the order of their first."""
        return [prices.program for prices in self.prices.values()]

    @property
    def extrapolated(self) -> tuple[Beyond, ...]:
        """What was priced outside the calibrated sizes, each at the size farthest out."""
        found: list[Beyond] = []
        for kind, prices in self.prices.items():
            sizes = self.plan.steps.sizes[self.plan.steps.kind == kind, : len(prices.features)]
            found.extend(prices.outside(sizes.min(axis=0), sizes.max(axis=0)))
        return farthest(found)

    @property
    def admitted_ns(self) -> Ints:
        """When each request was admitted."""
        return self.times.start[self.plan.stays.admitted]

    @property
    def first_token_ns(self) -> Ints:
        """When each request's first token was on the host."""
        return self.times.tokens[self.plan.stays.admitted]

    @property
    def finished_ns(self) -> Ints:
        """When each request's last token was on the host."""
        return self.times.tokens[self.plan.stays.finished]

    @property
    def slot(self) -> Ints:
        """The slot that each request held."""
        return self.plan.stays.slot

    def stretch(self) -> Stretch:
        """Return all steps, rows and events."""
        steps, rows, times = self.plan.steps, self.plan.rows, self.times
        program = np.full(max(self.prices) + 1, -1, np.int64)
        program[list(self.prices)] = np.arange(len(self.prices))
        return Stretch(
            first_step=0,
            first_flow=0,
            steps=StepColumns(
                program=program[steps.kind],
                start_ns=times.start,
                end_ns=times.end,
                batch=steps.batch,
                validate_rows=steps.validate_rows,
                graph_bucket=steps.bucket,
            ),
            events=EventColumns(times.event_start, times.event_end, times.wait_start, times.wait_end),
            rows=RowColumns(np.repeat(np.arange(len(steps.kind)), np.diff(steps.first_row)), *rows),
        )

"""The DSpark paper's algorithm 1: this step's confidence, and a stop at the first draft that does not pay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simtool.step.policies.policy import Decider, StepView, TwoAges
from simtool.step.policies.ranking import best_first, rate, table_of


@dataclass(frozen=True)
class DsparkStrict(TwoAges):
    """Admits drafts by survival and stops at the first that does not raise tokens x SPS."""

    name: ClassVar[str] = "dspark-strict"
    what: ClassVar[str] = "drafts by survival until the first that does not raise tokens x steps per second"
    source: ClassVar[str] = "DSpark, arXiv 2607.05147, algorithm 1 (3.2.2)"
    origins: ClassVar[Mapping[str, str]] = {
        "budget_age": "0: all of the algorithm is this step's",
        "split_age": "0",
    }
    home: ClassVar[str] = "this-step"
    reads: ClassVar[frozenset[str]] = frozenset({"predictor", "draft_ms", "table"})

    budget_age: int = 0

    @property
    def lossless(self) -> str:
        """Whether sampled output follows the target."""
        return "yes: the strict stop admits a draft before it looks at any that follows it in its sequence"

    def start(self) -> Decider:
        """Return a decider."""
        return _Strict(self)


class _Strict(Decider):
    def __init__(self, policy: DsparkStrict) -> None:
        super().__init__("nothing_admitted_steps", "cold_rows")
        self._policy = policy

    def decide(self, view: StepView) -> list[int]:
        """Count the admissions on the budget's confidence, then make them on the split's."""
        aged = view.aged[self._policy.budget_age]
        self.counters["cold_rows"] += aged.missing
        order = best_first(aged.survival, least=np.nextafter(0, 1))
        rates = rate(order.tokens, table_of(view).linear_ms(view.batch, order.rows))
        budget = admitted_before_stop(rates)
        self.counters["nothing_admitted_steps"] += not budget
        if self._policy.split_age != self._policy.budget_age:
            order = best_first(view.aged[self._policy.split_age].survival)
        return order.split(budget)


def admitted_before_stop(rates: np.ndarray[tuple[int], np.dtype[np.float64]]) -> int:
    """Return how many candidates raise the rate one after the other: rates[k] is that of the first k."""
    rises = np.diff(rates) > 0
    return len(rises) if rises.all() else int(np.argmin(rises))

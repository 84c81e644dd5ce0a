"""vLLM's adaptive verification: the budget from the confidence of one step ago, the split from the live one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from simtool.step.policies.dspark_production import ANTICIPATES, BARRIER
from simtool.step.policies.policy import Decider, StepView, TwoAges
from simtool.step.policies.ranking import best_budget, best_first, table_of


@dataclass(frozen=True)
class VllmAdaptive(TwoAges):
    """argmax of expected tokens over draft ms of the requests plus verify ms of the tokens."""

    name: ClassVar[str] = "vllm-adaptive"
    what: ClassVar[str] = (
        "tokens over draft ms[requests] + verify ms[tokens]; stairs up to the largest graph, a line past it"
    )
    source: ClassVar[str] = "vllm-project/vllm 47808 (merged 2026-08-12)"
    origins: ClassVar[Mapping[str, str]] = {
        "budget_age": "1: a double buffer, one step old",
        "split_age": "0: a top-k over live survival, on the device",
    }
    on_device: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset({"predictor", "draft_ms", "table"})

    budget_age: int = 1

    @property
    def lossless(self) -> str:
        """Whether sampled output follows the target."""
        return BARRIER if self.budget_age else ANTICIPATES

    def start(self) -> Decider:
        """Return a decider."""
        return _Adaptive(self)


class _Adaptive(Decider):
    def __init__(self, policy: VllmAdaptive) -> None:
        super().__init__("new_rows")
        self._policy = policy

    def decide(self, view: StepView) -> list[int]:
        """A new row counts as sure. The host lays out an even split, which the device changes."""
        aged = view.aged[self._policy.budget_age]
        self.counters["new_rows"] += aged.missing
        order = best_first(aged.survival)
        step_ms = table_of(view).staircase_ms(view.batch, order.rows, view.graph_rows)
        budget = best_budget(order.tokens, step_ms)
        return best_first(view.aged[self._policy.split_age].survival).split(budget)

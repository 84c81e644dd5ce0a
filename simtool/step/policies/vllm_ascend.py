"""vllm-ascend's dynamic lengths: a budget a request, counted every few steps, shared out by survival in each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simtool.errors import UsageError
from simtool.step.policies.policy import Decider, StepView, TwoAges, check_share
from simtool.step.policies.ranking import best_first


@dataclass(frozen=True)
class VllmAscend(TwoAges):
    """Mean number of drafts above a survival threshold, rounded up to an odd one, becomes every request's budget."""

    name: ClassVar[str] = "vllm-ascend"
    what: ClassVar[str] = "a budget a request, counted every few steps from survival above a threshold; no costs"
    source: ClassVar[str] = "vllm-project/vllm-ascend 13216 and its DynamicSpecScheduler"
    origins: ClassVar[Mapping[str, str]] = {
        "budget_age": "0: counted on this step's survival, with a sync in the steps that count",
        "split_age": "0: a top-k of this step's; the lengths are read back before the batch is built",
        "threshold": "0.3: budget_threshold",
        "update_every": "16: budget_update_interval",
        "initial": "5: initial_verify_budget_per_req",
        "least": "1: min_verify_tokens",
        "odd": "true: an even budget is raised by one, as measured on its hardware",
    }
    home: ClassVar[str] = "this-step"

    budget_age: int = 0
    threshold: float = 0.3
    update_every: int = 16
    initial: int = 5
    least: int = 1
    odd: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(self.name, "threshold", self.threshold)
        if self.update_every < 1 or self.initial < 0 or self.least < 0:
            raise UsageError(f"{self.name}: update_every is 1 or more, initial and least are 0 or more")

    @property
    def lossless(self) -> str:
        """Whether sampled output follows the target."""
        if self.budget_age:
            return "yes: the count is older than the drafts, and no draft is displaced by what follows it"
        return "no: in the steps that count, the budget depends on what follows the drafts that it lets through"

    def start(self) -> Decider:
        """Return a decider."""
        return _Counted(self)


class _Counted(Decider):
    def __init__(self, policy: VllmAscend) -> None:
        super().__init__("initial_budget_steps", "recounts", "cold_rows")
        self._policy = policy
        self._since = 0
        self._budget: int | None = None

    def decide(self, view: StepView) -> list[int]:
        """Count when it is time; then `least` drafts each, and the rest of the total to the likeliest."""
        policy = self._policy
        self._since += 1
        if self._since >= policy.update_every:
            self._since = 0
            self._count(view)
        each = policy.initial if self._budget is None else self._budget
        self.counters["initial_budget_steps"] += self._budget is None
        least = min(policy.least, view.drafts)
        each = min(max(each, least), view.drafts)
        rest = best_first(view.aged[policy.split_age].survival[:, least:])
        return [least + more for more in rest.split(view.batch * (each - least))]

    def _count(self, view: StepView) -> None:
        aged = view.aged[self._policy.budget_age]
        self.counters["recounts"] += 1
        self.counters["cold_rows"] += aged.missing
        mean = float(np.count_nonzero(aged.survival >= self._policy.threshold)) / view.batch
        budget = math.ceil(mean)
        if self._policy.odd and budget % 2 == 0 and budget < view.drafts:
            budget += 1
        self._budget = budget

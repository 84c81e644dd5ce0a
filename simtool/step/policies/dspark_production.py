"""The DSpark paper's production form: the budget from two steps ago, searched to the end; the split from this step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from simtool.step.policies.policy import Decider, StepView, TwoAges
from simtool.step.policies.ranking import best_budget, best_first, table_of

#: Why a budget that this step's drafts cannot have moved, split by this step's survival, is lossless.
BARRIER = (
    "yes: the budget is older than the drafts, and in a split by survival a draft is never displaced by what follows it"
)
#: Why the same search on this step's confidence is not.
ANTICIPATES = "no: a search of this step's survival offers a draft for what its followers look like (appendix A)"


@dataclass(frozen=True)
class DsparkProduction(TwoAges):
    """argmax over the whole of the ranked drafts, two steps old; this step's likeliest fill it."""

    name: ClassVar[str] = "dspark-production"
    what: ClassVar[str] = "the total that maximises tokens x SPS on old survival; this step's likeliest drafts fill it"
    source: ClassVar[str] = "DSpark, arXiv 2607.05147, section 5.2"
    origins: ClassVar[Mapping[str, str]] = {
        "budget_age": "2: section 5.2",
        "split_age": "0: section 5.2, a top-K on the device",
    }
    on_device: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset({"predictor", "draft_ms", "table"})

    budget_age: int = 2

    @property
    def lossless(self) -> str:
        """Whether sampled output follows the target."""
        return BARRIER if self.budget_age else ANTICIPATES

    def start(self) -> Decider:
        """Return a decider."""
        return _Search(self)


class _Search(Decider):
    def __init__(self, policy: DsparkProduction) -> None:
        super().__init__("cold_rows")
        self._policy = policy

    def decide(self, view: StepView) -> list[int]:
        """Search the total on old survival and split it by the new. The paper has no rule for a new request: 1.0."""
        aged = view.aged[self._policy.budget_age]
        self.counters["cold_rows"] += aged.missing
        order = best_first(aged.survival)
        budget = best_budget(order.tokens, table_of(view).linear_ms(view.batch, order.rows))
        return best_first(view.aged[self._policy.split_age].survival).split(budget)

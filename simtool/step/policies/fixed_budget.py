"""A fixed budget: always the same share of the drafts, split by survival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from simtool.step.policies.policy import Decider, Policy, StepView, check_share
from simtool.step.policies.ranking import best_first


@dataclass(frozen=True)
class FixedBudget(Policy):
    """The total is known before anything is drafted; only its split looks at confidence."""

    name: ClassVar[str] = "fixed-budget"
    what: ClassVar[str] = "a constant share of all drafts, given to the likeliest"
    source: ClassVar[str] = "sfllm 53 (dNtM, in one launch); SGLang's forced_budget_frac, which its profiler sweeps"
    origins: ClassVar[Mapping[str, str]] = {
        "split_age": "0: in both of them",
        "share": "0.5: a choice; sfllm's is given by the user, SGLang's profiler sweeps 0 to 1",
    }
    on_device: ClassVar[bool] = True

    split_age: int = 0
    share: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(self.name, "share", self.share)

    @property
    def budget_steps(self) -> None:
        """It depends on no confidence."""
        return

    @property
    def split_steps(self) -> int:
        """Age behind each share."""
        return self.split_age

    @property
    def lossless(self) -> str:
        """Whether sampled output follows the target."""
        return "yes: the total is a constant, and in a split by survival no draft is displaced by what follows it"

    def start(self) -> Decider:
        """Return a decider."""
        return _Fixed(self)


class _Fixed(Decider):
    def __init__(self, policy: FixedBudget) -> None:
        super().__init__("cold_rows")
        self._policy = policy

    def decide(self, view: StepView) -> list[int]:
        """The whole part of the share of batch x N."""
        aged = view.aged[self._policy.split_age]
        self.counters["cold_rows"] += aged.missing
        return best_first(aged.survival).split(int(self._policy.share * view.batch * view.drafts))

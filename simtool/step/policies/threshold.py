"""A confidence threshold: the first draft whose confidence is below it ends the prefix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simtool.step.policies.policy import Decider, Policy, StepView, check_share


@dataclass(frozen=True)
class ConfidenceThreshold(Policy):
    """Per draft, not cumulative: c[k] below the threshold ends the prefix before k."""

    name: ClassVar[str] = "threshold"
    what: ClassVar[str] = "the first confidence below a constant ends the prefix; nothing is known of costs"
    source: ClassVar[str] = "DeepSpec --confidence-threshold, vLLM 43522, antirez/ds4 --dspark-confidence"
    origins: ClassVar[Mapping[str, str]] = {
        "age": "0: this step's, in all of them",
        "least": "0.7: ds4's on ROCm; DeepSpec's 0 is off",
    }
    home: ClassVar[str] = "this-step"

    age: int = 0
    least: float = 0.7

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(self.name, "least", self.least)

    @property
    def budget_steps(self) -> None:
        """There is no total."""
        return

    @property
    def split_steps(self) -> int:
        """Age behind each prefix."""
        return self.age

    @property
    def lossless(self) -> str:
        """Whether sampled output follows the target."""
        return "yes: whether a draft is offered depends on the confidences up to its own"

    def start(self) -> Decider:
        """Return a decider."""
        return _Threshold(self)


class _Threshold(Decider):
    def __init__(self, policy: ConfidenceThreshold) -> None:
        super().__init__("full_width_rows")
        self._policy = policy

    def decide(self, view: StepView) -> list[int]:
        """A sequence without confidence of that age is verified at full width."""
        aged = view.aged[self._policy.age]
        self.counters["full_width_rows"] += aged.missing
        lengths = [view.drafts] * view.batch
        above = np.cumprod(aged.confidence >= self._policy.least, axis=1).sum(axis=1)
        for i, length in zip(aged.own, above.tolist(), strict=True):
            lengths[i] = length
        return lengths

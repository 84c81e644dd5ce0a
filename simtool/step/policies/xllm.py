"""xLLM's controller, the present one: the total and the split come out of one scan, on confidence of one age."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from simtool.step.controller import decide_paths
from simtool.step.policies.policy import Decider, Policy, StepView


@dataclass(frozen=True)
class XllmController(Policy):
    """The greedy scan of pull request 2231, at the age that 2280's placements give it."""

    name: ClassVar[str] = "xllm"
    what: ClassVar[str] = (
        "greedy scan: a draft is taken while tokens per millisecond improve; what every placement runs"
    )
    source: ClassVar[str] = "xLLM pull requests 2231 and 2280"
    origins: ClassVar[Mapping[str, str]] = {"age": "the placement's lag: 1 in xLLM 2280's lag arms, 0 in this-step"}
    home: ClassVar[str] = "lag-overlap"
    reads: ClassVar[frozenset[str]] = frozenset({"predictor", "draft_ms", "min_gain"})

    age: int = 1

    @property
    def budget_steps(self) -> int:
        """The one age."""
        return self.age

    @property
    def split_steps(self) -> int:
        """The one age."""
        return self.age

    @property
    def lossless(self) -> str:
        """Whether sampled output follows the target."""
        if self.age:
            return "yes: confidence from an earlier step cannot depend on the drafts that are judged"
        return "yes while min_gain is 0: with costs in a line the scan never offers a draft for what follows it"

    def start(self) -> Decider:
        """Return a decider."""
        return _Scan(self.age)


class _Scan(Decider):
    def __init__(self, age: int) -> None:
        super().__init__("full_width_rows")
        self._age = age

    def decide(self, view: StepView) -> list[int]:
        """As `controller.decide`: a sequence without confidence of that age is verified at full width."""
        aged = view.aged[self._age]
        self.counters["full_width_rows"] += aged.missing
        return decide_paths(aged.own_survival, aged.own, view.kv_lens, view.drafts, view.settings)

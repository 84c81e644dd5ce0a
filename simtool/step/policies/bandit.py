"""A bandit over static widths: one width for all, chosen by what the widths have brought so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simtool.errors import UsageError
from simtool.step.policies.policy import Decider, StepView, WithoutConfidence
from simtool.step.policies.ranking import table_of


@dataclass(frozen=True)
class WidthBandit(WithoutConfidence):
    """UCB1; a width's reward is the tokens a millisecond that it brought, over the best width's mean."""

    name: ClassVar[str] = "bandit"
    what: ClassVar[str] = "UCB1 over static widths: no confidence, only what was accepted and what a step takes"
    source: ClassVar[str] = "the kind of TapOut (arXiv 2511.02017) and BanditSpec (2505.15141), over widths"
    origins: ClassVar[Mapping[str, str]] = {
        "widths": "0: N, N/2, N/4, ... and 0; or a list such as 0-3-7",
        "exploration": "0.5: a choice; UCB1's textbook factor is 1 for rewards between 0 and 1",
    }
    home: ClassVar[str] = "lag-overlap"
    reads: ClassVar[frozenset[str]] = frozenset({"predictor", "draft_ms", "table"})

    widths: str = "0"
    exploration: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(part.isdecimal() for part in self.widths.split("-")):
            raise UsageError(f"{self.name}: widths is {self.widths!r}; expected something like 0-3-7")
        if self.exploration < 0:
            raise UsageError(f"{self.name}: exploration is {self.exploration:g}; expected 0 or more")

    @property
    def lossless(self) -> str:
        """Whether sampled output follows the target."""
        return "yes: a width depends on earlier steps alone"

    def arms(self, drafts: int) -> list[int]:
        """Return the widths that it chooses among, for a block of so many drafts."""
        if self.widths != "0":
            return sorted({min(int(part), drafts) for part in self.widths.split("-")})
        halves = [drafts >> k for k in range(drafts.bit_length())]
        return sorted({0, *halves})

    def start(self) -> Decider:
        """Return a decider."""
        return _Ucb(self)


class _Ucb(Decider):
    def __init__(self, policy: WidthBandit) -> None:
        super().__init__("explored_steps")
        self._policy = policy
        self._arms: list[int] = []
        self._counts, self._sums = np.zeros(0), np.zeros(0)
        self._arm = 0

    def decide(self, view: StepView) -> list[int]:
        """Try each width once, widest first; then the one with the highest bound."""
        if not self._arms:
            self._arms = self._policy.arms(view.drafts)
            self._counts, self._sums = np.zeros(len(self._arms)), np.zeros(len(self._arms))
        self._arm = self._choose()
        return [self._arms[self._arm]] * view.batch

    def learn(self, view: StepView, offered: Sequence[int], accepted: Sequence[int]) -> None:
        """Reward the width with its tokens a millisecond."""
        rows = np.array([view.batch + sum(offered)])
        step_ms = float(table_of(view).linear_ms(view.batch, rows)[0])
        self._counts[self._arm] += 1
        self._sums[self._arm] += (sum(accepted) + view.batch) / max(step_ms, 1e-6)

    def _choose(self) -> int:
        untried = np.flatnonzero(self._counts == 0)
        if len(untried):
            self.counters["explored_steps"] += 1
            return int(untried[-1])
        means = self._sums / self._counts
        bounds = means / means.max() + self._policy.exploration * np.sqrt(
            2 * math.log(self._counts.sum()) / self._counts
        )
        chosen = int(np.argmax(bounds))
        self.counters["explored_steps"] += chosen != int(np.argmax(means))
        return chosen

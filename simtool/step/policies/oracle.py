"""The oracle: it knows how far each block matches. No system can, so it is the bound that the others are held to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simtool.errors import SimtoolError
from simtool.step.policies.policy import Decider, StepView, WithoutConfidence
from simtool.step.policies.ranking import best_first, rate, table_of


@dataclass(frozen=True)
class KnowsMatchRuns(WithoutConfidence):
    """Offers what will be accepted, as far as each row pays for itself."""

    name: ClassVar[str] = "oracle"
    what: ClassVar[str] = "knows the match runs before the verify: what is left to any policy at these costs"
    source: ClassVar[str] = "a bound, not a system; replay only"
    home: ClassVar[str] = "lag-overlap-late"
    reads: ClassVar[frozenset[str]] = frozenset({"predictor", "draft_ms", "table"})
    needs_truth: ClassVar[bool] = True

    @property
    def lossless(self) -> str:
        """Whether sampled output would follow the target."""
        return "no: it looks at what is to be judged; a bound for greedy decoding"

    def start(self) -> Decider:
        """Return a decider."""
        return _Oracle()


class _Oracle(Decider):
    def __init__(self) -> None:
        super().__init__()

    def decide(self, view: StepView) -> list[int]:
        """Rank the drafts that match before those that do not; the best number of rows is at most the matching ones."""
        if view.match_runs is None:
            raise SimtoolError("the oracle was asked where match runs are not known; it belongs into a replay")
        matches = np.array(view.match_runs)[:, None] > np.arange(view.drafts)
        order, table = best_first(matches.astype(np.float64), least=0.5), table_of(view)
        rates = rate(order.tokens, table.linear_ms(view.batch, order.rows))
        whole = rate(order.tokens[-1:], np.array([table.whole_ms(view.batch, view.drafts)]))
        if whole[0] >= rates.max():  # a step that cuts nothing may be cheaper than one of fewer rows
            return [view.drafts] * view.batch
        return order.split(int(np.argmax(rates)))

"""SGLang's relay (`compact`, overlap on): confidence goes to the host through a pinned ring and is never waited for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from simtool.errors import UsageError
from simtool.step.graph_buckets import pick_bucket
from simtool.step.policies.dspark_production import ANTICIPATES, BARRIER
from simtool.step.policies.policy import Decider, StepView, TwoAges
from simtool.step.policies.ranking import BestFirst, best_budget, best_first, rate, table_of

_TABLES = ("floor", "additive")


@dataclass(frozen=True)
class SglangRelay(TwoAges):
    """The budget from a ring two steps behind; the device splits it by this step's survival."""

    name: ClassVar[str] = "sglang-relay"
    what: ClassVar[str] = "budget from a ring of pinned copies, whatever is not there yet verifies all; split on device"
    source: ClassVar[str] = "sgl-project/sglang, speculative/dspark_components and managers/overlap_utils.py"
    origins: ClassVar[Mapping[str, str]] = {
        "budget_age": "2: SGLANG_DSPARK_CONFIDENCE_RELAY_LAG_STEPS",
        "split_age": "0: the Triton rank of this step's survival",
        "ring_depth": "3: RING_DEPTH; a lag needs one slot more",
        "table": "floor: SpsCostTable; additive: SpsAdditiveCostTable",
        "probe_rows": "0: at N+1 rows and its multiples, as graphs are captured; with graphs, at these",
        "survival_eps": "1e-6",
        "min_predicted_gain": "0; 0.05 for tables derived from graphs (35413)",
        "align_to_tier": "false: --speculative-dspark-align-verify-tokens-to-graph-tier",
    }
    on_device: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset({"predictor", "draft_ms", "table"})

    budget_age: int = 2
    ring_depth: int = 3
    table: str = "floor"
    probe_rows: int = 0
    survival_eps: float = 1e-6
    min_predicted_gain: float = 0.0
    align_to_tier: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.table not in _TABLES:
            raise UsageError(f"{self.name}: table is {self.table!r}; expected one of {', '.join(_TABLES)}")
        if self.ring_depth <= self.budget_age:
            raise UsageError(
                f"{self.name}: a ring of {self.ring_depth} has overwritten what is {self.budget_age} steps old; "
                f"expected ring_depth {self.budget_age + 1} or more"
            )
        for name in ("probe_rows", "min_predicted_gain", "survival_eps"):
            if getattr(self, name) < 0:
                raise UsageError(f"{self.name}: {name} is {getattr(self, name)}; expected 0 or more")

    @property
    def lossless(self) -> str:
        """Whether sampled output follows the target."""
        return BARRIER if self.budget_age else ANTICIPATES

    def start(self) -> Decider:
        """Return a decider."""
        return _Relay(self)


class _Relay(Decider):
    def __init__(self, policy: SglangRelay) -> None:
        super().__init__("not_ready_steps", "stale_rows", "verify_all_steps", "tier_drafts")
        self._policy = policy
        self._published = 0

    def decide(self, view: StepView) -> list[int]:
        """Verify all until the ring holds a step so old; then budget, tier and split."""
        if self._published < self._policy.budget_age:
            self.counters["not_ready_steps"] += 1
            return [view.drafts] * view.batch
        aged = view.aged[self._policy.budget_age]
        self.counters["stale_rows"] += aged.missing  # another generation's, or none: survival 1.0
        budget = self._budget(view, best_first(aged.survival, self._policy.survival_eps))
        return best_first(view.aged[self._policy.split_age].survival).split(budget)

    def learn(self, view: StepView, offered: object, accepted: object) -> None:
        """The step's confidence goes into the ring."""
        self._published += 1

    def _budget(self, view: StepView, order: BestFirst) -> int:
        policy, most = self._policy, view.batch * view.drafts
        step_ms = self._step_ms(view, order.rows)
        budget = best_budget(order.tokens, step_ms)
        if policy.min_predicted_gain:
            rates = rate(order.tokens, step_ms)
            if rates[budget] < rates[-1] * (1 + policy.min_predicted_gain):
                self.counters["verify_all_steps"] += 1
                return most
        if policy.align_to_tier and (tier := pick_bucket(view.graph_rows, view.batch + budget)):
            filled = min(tier - view.batch, most)
            self.counters["tier_drafts"] += filled - budget
            return filled
        return budget

    def _step_ms(self, view: StepView, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        table = table_of(view)
        if self._policy.table == "additive":
            return table.linear_ms(view.batch, rows)
        every = self._policy.probe_rows or view.drafts + 1
        probes = view.graph_rows or range(every, max(int(rows[-1]), every) + every, every)
        return table.floor_ms(view.batch, rows, probes)

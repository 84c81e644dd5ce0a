"""Ours: survival is forecast from the steps before, and a draft is offered where it brings more than its time is worth.

Everything that it reads is older than the drafts and on the host already: lossless, and nothing on the path waits.

Two things are learned while a run goes on. *What survival will be*: last step's, corrected by a line fitted to how it
moved so far, from last step's survival and what was accepted of it. A calibrated confidence of this step is its own
best forecast, so the line is fitted to that, which is known of every draft, offered or not. *What a millisecond is
worth*: the tokens that it brought at this batch size. The tokens of a long run over its time are most where each step
maximises tokens - worth x ms, not its own tokens / ms: a poor step should be kept short, not be made the best of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from simtool.errors import UsageError
from simtool.step.policies.policy import Aged, Decider, StepView, TwoAges, check_share
from simtool.step.policies.ranking import BestFirst, best_first, rate, table_of

Floats = NDArray[np.float64]
_OBJECTIVES = ("worth", "ratio")
#: Steps of a batch size before what a millisecond was worth in them is believed.
_LEAST_STEPS = 8


@dataclass(frozen=True)
class ForecastSurvival(TwoAges):
    """Forecast survival, recorded costs of whole steps, and the worth of time."""

    name: ClassVar[str] = "forecast"
    what: ClassVar[str] = "this step's survival forecast from the last; drafts that bring more than their time is worth"
    source: ClassVar[str] = "ours"
    origins: ClassVar[Mapping[str, str]] = {
        "budget_age": "1: the last step",
        "split_age": "1: the forecast too; 0: by this step's survival, on the device",
        "memory": "0.98: what a step still counts in the fit after the next",
        "prior": "20: rows that say survival stays as it is",
        "forecast": "true; false: the last step's survival as it is",
        "objective": "worth: tokens - worth x ms; ratio: tokens / ms, as the others",
    }
    home: ClassVar[str] = "lag-overlap"
    on_device: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset({"predictor", "draft_ms", "table"})

    budget_age: int = 1
    split_age: int = 1
    memory: float = 0.98
    prior: float = 20.0
    forecast: bool = True
    objective: str = "worth"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(self.name, "memory", self.memory)
        if self.budget_age < 1:
            raise UsageError(f"{self.name}: budget_age is {self.budget_age}; expected 1 or more, it forecasts")
        if self.objective not in _OBJECTIVES:
            raise UsageError(f"{self.name}: objective is {self.objective!r}; expected one of {', '.join(_OBJECTIVES)}")
        if self.prior < 0:
            raise UsageError(f"{self.name}: prior is {self.prior:g}; expected 0 or more")

    @property
    def lossless(self) -> str:
        """Whether sampled output follows the target."""
        if self.split_age:
            return "yes: all that it reads is older than the drafts that are judged"
        return (
            "yes: the budget is older than the drafts, and in a split by survival nothing is displaced by what follows"
        )

    def start(self) -> Decider:
        """Return a decider."""
        return _Forecasting(self)


class _Forecasting(Decider):
    def __init__(self, policy: ForecastSurvival) -> None:
        super().__init__("cold_rows", "steps_without_worth")
        self._policy = policy
        self._lines: _Lines | None = None
        self._accepted: dict[object, float] = {}
        self._worth: dict[int, _Worth] = {}

    def decide(self, view: StepView) -> list[int]:
        """Forecast, choose the total, and split it."""
        aged = view.aged[self._policy.budget_age]
        self.counters["cold_rows"] += aged.missing
        paths = self._foreseen(view, aged) if self._policy.forecast else aged.survival
        budget = self._budget(view, best_first(paths))
        split = best_first(view.aged[0].survival) if not self._policy.split_age else best_first(paths)
        return split.split(budget)

    def learn(self, view: StepView, offered: Sequence[int], accepted: Sequence[int]) -> None:
        """Keep what was accepted of each, and what the step brought for its time."""
        self._accepted = {key: a / view.drafts for key, a in zip(view.keys, accepted, strict=True)}
        worth = self._worth.setdefault(view.batch, _Worth())
        worth.add(sum(accepted) + view.batch, _step_ms(view, sum(offered)), self._policy.memory)

    def _foreseen(self, view: StepView, aged: Aged) -> Floats:
        """Survival of this step's drafts as it is expected; of a new sequence the mean of all so far."""
        if self._lines is None:
            self._lines = _Lines(view.drafts, self._policy)
        keys = [view.keys[i] for i in aged.own]
        known = aged.own_survival
        self._lines.learn(keys, known)
        paths = np.tile(self._lines.mean, (view.batch, 1))
        took = np.array([self._accepted.get(key, 0.0) for key in keys])
        paths[list(aged.own)] = self._lines.forecast(keys, known, took)
        return paths

    def _budget(self, view: StepView, order: BestFirst) -> int:
        """The total, and all of it where a step that cuts nothing is better still."""
        table = table_of(view)
        step_ms = table.linear_ms(view.batch, order.rows)
        whole_ms = np.array([table.whole_ms(view.batch, view.drafts)])
        worth = self._worth.get(view.batch)
        if self._policy.objective == "ratio" or worth is None or worth.steps < _LEAST_STEPS:
            self.counters["steps_without_worth"] += self._policy.objective == "worth"
            gains, whole = rate(order.tokens, step_ms), rate(order.tokens[-1:], whole_ms)
        else:
            each = worth.tokens_per_ms
            gains, whole = order.tokens - each * step_ms, order.tokens[-1:] - each * whole_ms
        return len(order.survival) if whole[0] >= gains.max() else int(np.argmax(gains))


def _step_ms(view: StepView, offered: int) -> float:
    table = table_of(view)
    if offered == view.batch * view.drafts:
        return table.whole_ms(view.batch, view.drafts)
    return float(table.linear_ms(view.batch, np.array([view.batch + offered]))[0])


class _Worth:
    """Tokens and milliseconds of the steps of one batch size, older ones counting less."""

    def __init__(self) -> None:
        self.steps = 0
        self._tokens, self._ms = 0.0, 0.0

    @property
    def tokens_per_ms(self) -> float:
        return self._tokens / self._ms

    def add(self, tokens: int, step_ms: float, memory: float) -> None:
        self.steps += 1
        self._tokens = self._tokens * memory + tokens
        self._ms = self._ms * memory + step_ms


class _Lines:
    """A line for each position: this step's survival from the last one's and what was accepted of the last block.

    Least squares with forgetting; the prior says that survival stays as it is. mean: of all survival so far, [N].
    """

    def __init__(self, drafts: int, policy: ForecastSurvival) -> None:
        features = 3
        self._memory, self._prior = policy.memory, policy.prior
        self._squares = np.zeros((drafts, features, features))
        self._products = np.zeros((drafts, features))
        self._start = np.zeros((drafts, features))
        self._start[:, 1] = 1.0
        self._ridge = np.diag([0.1, 1.0, 1.0]) * policy.prior + np.eye(features) * 1e-9
        self._asked: dict[object, Floats] = {}
        self._weight, self._sum = 0.0, np.zeros(drafts)
        self.mean = np.ones(drafts)

    def learn(self, keys: Sequence[object], survival: Floats) -> None:
        """Hear what survival was where a forecast was made: [own, N]."""
        asked = [(self._asked[key], row) for key, row in zip(keys, survival, strict=True) if key in self._asked]
        if len(keys):
            self._weight = self._weight * self._memory + len(keys)
            self._sum = self._sum * self._memory + survival.sum(axis=0)
            self.mean = self._sum / self._weight
        if asked:
            x, y = np.array([features for features, _ in asked]), np.array([row for _, row in asked])
            self._squares = self._squares * self._memory + np.einsum("rnf,rng->nfg", x, x)
            self._products = self._products * self._memory + np.einsum("rnf,rn->nf", x, y)

    def forecast(self, keys: Sequence[object], survival: Floats, accepted: Floats) -> Floats:
        """Return survival as expected next, never growing along a block: [own, N]. accepted: shares of a block."""
        x = np.stack([np.ones_like(survival), survival, np.broadcast_to(accepted[:, None], survival.shape)], axis=2)
        self._asked = dict(zip(keys, x, strict=True))
        wanted = self._products + np.einsum("fg,ng->nf", self._ridge, self._start)
        lines = np.linalg.solve(self._squares + self._ridge, wanted[..., None])[..., 0]
        found: Floats = np.clip(np.einsum("rnf,nf->rn", x, lines), 0.0, 1.0)
        falling: Floats = np.minimum.accumulate(found, axis=1)
        return falling

"""What budgets are made of: drafts in the order of their survival, the tokens they promise, and how many pay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simtool.step.controller import MIN_MS
from simtool.step.policies.policy import StepView
from simtool.step.step_table import StepTable

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BestFirst:
    """Every draft of a batch, likeliest first. request: whose it is; survival: its own: [drafts] each."""

    batch: int
    request: NDArray[np.int64]
    survival: Floats

    @property
    def tokens(self) -> Floats:
        """Tokens expected when the first k drafts are offered, k from 0 on: one a sequence, and their survival."""
        return self.batch + np.concatenate(([0.0], np.cumsum(self.survival)))

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows of the target forward when the first k drafts are offered, k from 0 on."""
        return self.batch + np.arange(len(self.survival) + 1)

    def split(self, budget: int) -> list[int]:
        """Return each sequence's share of a budget of so many drafts."""
        shares: list[int] = np.bincount(self.request[:budget], minlength=self.batch).tolist()
        return shares


def best_first(paths: Floats, least: float = 0.0) -> BestFirst:
    """Sort the drafts by survival [batch, N]; equals by position, then by sequence. Those below `least` are left out.

    Survival never grows along a sequence, so any number of them, taken from the front, are prefixes.
    """
    batch = len(paths)
    by_draft = paths.T.ravel()
    order = np.argsort(-by_draft, kind="stable")
    ordered = by_draft[order]
    kept = ordered >= least
    return BestFirst(batch, (order % batch)[kept], ordered[kept])


def best_budget(tokens: Floats, step_ms: Floats) -> int:
    """Return how many drafts give the most tokens a millisecond; the fewest of equals."""
    return int(np.argmax(rate(tokens, step_ms)))


def rate(tokens: Floats, step_ms: Floats) -> Floats:
    """Return tokens per millisecond."""
    return tokens / np.maximum(step_ms, MIN_MS)


def table_of(view: StepView) -> StepTable:
    """Return what a step takes: the table of the settings, else the predictor's line at this batch's mean kv length.

    With neither a verify takes 1 ms whatever its rows, as the controller has it: then all drafts pay.
    """
    settings = view.settings
    if settings.table is not None:
        return settings.table
    draft_ms = max(settings.draft_ms, 0.0)
    if settings.predictor is None:
        return StepTable((1,), (draft_ms,), (1,), (1.0,))
    line = settings.predictor
    row_ms = line.query_token_ms + line.query_prefix_ms * sum(view.kv_lens) / max(view.batch, 1)
    ends = (0, view.batch * (view.drafts + 1))
    return StepTable((1,), (draft_ms,), ends, tuple(line.intercept_ms + row_ms * rows for rows in ends))

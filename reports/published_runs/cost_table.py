"""What follows from vLLM's cost table: where it has steps, and what stopping at the first of them costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from published_runs.budgets import Choice, best, choices, stairs, strict_stop, tokens_by_budget
from published_runs.tables import draft_table, verify_table
from simtool.replay.synthetic.process import constant_acceptance

_BLOCK = 7
REQUESTS = (1, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Budgets:
    """At so many requests: all drafts, the best budget, and where a strict stop ends. Drafts are of the whole batch."""

    requests: int
    full: Choice
    best: Choice
    strict: Choice

    @property
    def best_gain(self) -> float:
        """Of the best budget over verifying all."""
        return self.best.rate / self.full.rate - 1

    @property
    def strict_loss(self) -> float:
        """Of the strict stop against the best; below 0."""
        return self.strict.rate / self.best.rate - 1


def budgets(folder: Path, accept_len: float, sharpness: float) -> list[Budgets]:
    """Return the budgets by requests, at a model's accept length and a confidence of this sharpness."""
    verify, draft = verify_table(folder), draft_table(folder)
    acceptance = constant_acceptance(_BLOCK, accept_len)
    found = []
    for requests in REQUESTS:
        clock = stairs(verify, draft[requests])
        tokens = tokens_by_budget(acceptance, requests, sharpness)
        every = choices(tokens, requests, clock)
        found.append(Budgets(requests, every[-1], best(tokens, requests, clock), strict_stop(tokens, requests, clock)))
    return found


def falls(table: Mapping[int, float]) -> list[tuple[int, int, float]]:
    """Return where more tokens take less time: from, to, and by what share."""
    found = [(low, high, table[high] / table[low] - 1) for low, high in pairwise(sorted(table))]
    return [each for each in found if each[2] < 0]

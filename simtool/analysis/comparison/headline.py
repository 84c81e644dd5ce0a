"""What "faster" means here, and faster than what: defined once, for every verdict, table, page and study.

The headline metric is steady tok/s: tokens that the decode steps at full occupancy emit, over the sum of those steps.
The question is what a placement is worth on a server that is kept busy at some concurrency. Whole-run tok/s of a short
run mostly measures how its batch fills and drains, and would make the same placement worth more or less by how
many prompts were recorded. Whole-run tok/s stands beside it, takes over where the batch was never full or two runs were
full at different sizes, and a verdict says so where it points the other way.

The headline baseline is static: what the engine does with the option off. "Should I turn it on?" is a question about
that, whichever placement one would turn on.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class Metric(StrEnum):
    """What is compared. TOKENS_PER_S and STEP_TIME are of decode steps at full occupancy, WHOLE_RUN of all steps."""

    TOKENS_PER_S = "tokens_per_s"
    WHOLE_RUN = "whole_run_tokens_per_s"
    STEP_TIME = "step_time"

    @property
    def more_is_better(self) -> bool:
        """Whether a larger value is the faster one."""
        return self is not Metric.STEP_TIME


_TELLING = 0.0005

HEADLINE = Metric.TOKENS_PER_S
BASELINE = "static"

#: What stands in where static was not run: the pull request's first behaviour.
_BASELINES = (BASELINE, "this-step")


def disagree(change: float, other: float) -> bool:
    """Whether two metrics' changes, as shares, point opposite ways; one that rounds to 0.0 % points no way."""
    return change * other < 0 and min(abs(change), abs(other)) >= _TELLING


def baseline_of(placements: Sequence[str], wanted: str | None = None) -> str:
    """Return the placement that others are judged against: the wanted one, else static, else this-step, else the first.

    placements: one or more names, in the order in which they were given.
    """
    return next(name for name in (wanted, *_BASELINES, *placements) if name is not None and name in placements)

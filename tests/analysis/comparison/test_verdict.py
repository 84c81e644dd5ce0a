"""What the answer may claim: never more than its intervals, never across groups."""

import numpy as np
import pytest

from simtool.analysis.comparison.arms import Arm
from simtool.analysis.comparison.runs import Run
from simtool.analysis.comparison.verdict import verdicts
from simtool.errors import UsageError


def _arm(placement: str, speeds: list[float], origin: str = "live", group: str = "live") -> Arm:
    runs = tuple(Run(placement, np.full(100, 8), np.full(100, round(1e9 / speed))) for speed in speeds)
    return Arm(f"{placement} ({origin})", placement, origin, runs, (), group)


def test_the_best_resolved_arm_is_the_headline():
    arms = [_arm("this-step", [9, 9.1, 9.05]), _arm("static", [10, 10.1, 10.1]), _arm("lag", [11, 11.2, 11.05])]
    (only,) = verdicts(arms)
    assert only.baseline.placement == "static"
    assert only.headline.startswith("live: lag gives 10.")
    assert only.method == "paired t on 3 repetitions"


def test_nothing_better_is_said_so():
    (only,) = verdicts([_arm("this-step", [9, 9.1, 9.05]), _arm("static", [10, 10.1, 10.1])])
    assert only.headline.startswith("live: nothing beats static; the closest: this-step gives")


def test_one_live_run_each_claims_nothing():
    (only,) = verdicts([_arm("static", [10]), _arm("lag", [12]), _arm("this-step", [8])])
    assert only.headline.startswith("live: cannot tell lag, this-step from static by one run each: runs drift")


def test_noise_claims_nothing():
    (only,) = verdicts([_arm("static", [10, 12, 9]), _arm("lag", [12, 9, 11]), _arm("this-step", [9, 12, 10])])
    lag, fresh = only.comparisons
    assert only.headline == (
        "live: cannot tell lag, this-step from static: every 95 % interval spans zero "
        f"(lag {lag.interval}, this-step {fresh.interval})"
    )


def test_the_headline_is_a_pair_that_is_resolved():
    arms = [_arm("static", [10, 10.1, 10.1]), _arm("lag", [8, 16, 10]), _arm("this-step", [9, 9.1, 9.05])]
    (only,) = verdicts(arms)
    lag, fresh = only.comparisons
    assert (lag.resolved, fresh.resolved) == (False, True)
    assert lag.ratio > fresh.ratio
    assert only.headline == f"live: {fresh.verdict}"


def test_groups_are_answered_apart():
    arms = [_arm("static", [9]), _arm("static", [5], "modeled", "modeled"), _arm("lag", [6], "modeled", "modeled")]
    live, modeled = verdicts(arms)
    alone = "live: static is alone, so there is nothing to compare it with; static (modeled), lag (modeled): of another"
    assert live.headline.startswith(alone)
    assert (live.told, live.beside) == (False, tuple(arms[1:]))
    assert modeled.headline.startswith("modeled: lag gives 20.0 % more tokens/s than static")


def test_the_baseline_can_be_chosen():
    arms = [_arm("this-step", [10, 10.1]), _arm("lag", [11, 11.1])]
    assert verdicts(arms, baseline="lag")[0].baseline.placement == "lag"
    with pytest.raises(UsageError, match="--baseline is 'best'; expected a placement among the traces: lag, this-step"):
        verdicts(arms, baseline="best")

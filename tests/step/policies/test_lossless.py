"""Whether a draft is offered may depend on the confidences up to its own, never on those behind it.

That is what makes a decision on this step's confidence lossless. Policies that say they are hold to it on drawn steps;
those that say no are caught.
"""

from __future__ import annotations

import random

import pytest

from simtool.step.policies.catalogue import POLICIES, parse_policy
from simtool.step.policies.policy import Policy
from simtool.step.step_table import StepTable
from tests.step.policies.views import view

LIVE = [
    "dspark-strict",
    "dspark-production",
    "sglang-relay",
    "sglang-relay:table=additive,align_to_tier=true",
    "vllm-adaptive",
    "vllm-ascend:budget_age=1,update_every=1",
    "threshold",
    "fixed-budget",
    "forecast:split_age=0",
    "xllm:age=0",
]
ANTICIPATING = [
    "dspark-production:budget_age=0",
    "sglang-relay:budget_age=0,table=additive",
    "vllm-adaptive:budget_age=0",
    "vllm-ascend:update_every=1",
]


def drawn(rng: random.Random, batch: int, n: int) -> list[list[float]]:
    return [[rng.random() ** 0.4 for _ in range(n)] for _ in range(batch)]


def moved(policy: Policy, tries: int = 400) -> int:
    """How often other confidences behind a draft changed whether it was offered, of drawn steps after a few of warm-up.

    The first row more is a stair, on which a search without a stop jumps over drafts that do not pay alone.
    """
    rng, found = random.Random(5), 0
    for _ in range(tries):
        batch, n = rng.randint(1, 4), rng.randint(2, 5)
        stair = 1 + rng.uniform(0.5, 4)
        table = StepTable((1,), (0.0,), (batch, batch + 1, batch + 30), (1.0, stair, stair + rng.uniform(0, 4)))
        old = {age: drawn(rng, batch, n) for age in policy.ages if age}
        first, now = drawn(rng, batch, n), drawn(rng, batch, n)
        i, k = rng.randrange(batch), rng.randint(1, n - 1)
        other = [list(row) for row in now]
        other[i][k:] = drawn(rng, 1, n - k)[0]
        offered = []
        for live in (now, other):
            before, step = (
                view({**old, 0: rows}, table=table, graph_rows=(batch, batch + 2, batch + 5)) for rows in (first, live)
            )
            decider = policy.start()
            for _ in range(3 if policy.name == "sglang-relay" else 0):
                decider.learn(before, [0] * batch, [0] * batch)
            offered.append(decider.decide(step)[i] >= k)
        found += offered[0] != offered[1]
    return found


@pytest.mark.parametrize("text", LIVE)
def test_no_draft_is_offered_for_what_follows_it(text):
    policy = parse_policy(text)
    assert policy.lossless.startswith("yes")
    assert 0 in policy.ages
    assert moved(policy) == 0


@pytest.mark.parametrize("text", ANTICIPATING)
def test_a_policy_that_says_no_really_looks_ahead(text):
    policy = parse_policy(text)
    assert policy.lossless.startswith("no")
    assert moved(policy) > 0


def test_every_policy_is_judged_here():
    judged = {text.partition(":")[0] for text in (*LIVE, *ANTICIPATING)}
    assert judged | {"bandit", "oracle"} == set(POLICIES)  # a bandit reads no confidence; the oracle is a bound
    assert POLICIES["oracle"]().biased


def test_without_a_head_this_steps_confidence_is_the_drafts_own():
    assert parse_policy("sglang-relay").why_biased(confidence_head=True) is None
    assert "very token" in (parse_policy("sglang-relay").why_biased(confidence_head=False) or "")
    assert parse_policy("threshold:age=1").why_biased(confidence_head=False) is None
    assert parse_policy("bandit").why_biased(confidence_head=False) is None
    assert "counts" not in (parse_policy("vllm-ascend:budget_age=1").why_biased(confidence_head=True) or "")
    assert "in the steps that count" in (parse_policy("vllm-ascend").why_biased(confidence_head=True) or "")

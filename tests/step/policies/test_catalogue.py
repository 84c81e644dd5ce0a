"""How a policy is typed, what it is called, and which orders of the host's work it may have."""

from __future__ import annotations

import pytest

from simtool.errors import PlacementError, UsageError
from simtool.step.placement import BUILT_IN, load_placement, placement_from_dict, resolve_placement, with_lag
from simtool.step.policies.catalogue import POLICIES, parse_policy
from simtool.step.policies.policy import Policy


@pytest.mark.parametrize("name", POLICIES)
def test_each_says_where_its_parameters_come_from_and_comes_back_from_its_text(name):
    policy: Policy = POLICIES[name]()
    assert parse_policy(policy.text) == policy
    assert set(policy.origins) == set(policy.parameters)
    assert policy.text == name
    placement = resolve_placement(name)
    assert placement.rule == policy
    assert placement_from_dict(placement.to_dict()) == placement


def test_parameters_are_named_where_they_are_not_the_defaults():
    placement = resolve_placement("lag-overlap@sglang-relay:table=additive,budget_age=1")
    assert placement.name == "lag-overlap@sglang-relay:budget_age=1,table=additive"
    assert placement.file_stem == "lag-overlap-sglang-relay-budget_age-1-table-additive"
    assert (placement.lag_steps, placement.order) == (1, BUILT_IN["lag-overlap"].order)
    assert placement.splits_for_free
    assert resolve_placement(placement.name) == placement


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("sglang-relai", "did you mean 'sglang-relay'"),
        ("sglang-relay:lag=2", "unknown parameter 'lag'"),
        ("sglang-relay:budget_age=two", "expected a whole number"),
        ("sglang-relay:budget_age", "has no value"),
        ("sglang-relay:align_to_tier=maybe", "expected true or false"),
        ("sglang-relay:budget_age=3", "expected ring_depth 4 or more"),
        ("sglang-relay:table=cubic", "expected one of floor, additive"),
        ("vllm-adaptive:budget_age=9", "expected 0 to 8"),
        ("threshold:least=1.5", "expected 0 to 1"),
        ("bandit:widths=a-b", "expected something like 0-3-7"),
        ("lag@threshold", "use this-step@threshold"),
        ("lag@vllm-adaptive:budget_age=0", "never reads"),
        ("static@bandit", "decides nothing"),
        ("device-split@bandit", "by its own rule"),
        ("nowhere@bandit", "unknown placement 'nowhere'"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(text, named):
    with pytest.raises((PlacementError, UsageError), match=named):
        resolve_placement(text)


def test_a_policys_ages_are_its_parameters_not_its_placements_lag():
    with pytest.raises(PlacementError, match="give vllm-adaptive its ages"):
        with_lag(resolve_placement("vllm-adaptive"), 3)


def test_a_file_may_name_a_policy(tmp_path):
    order = " ".join(str(slot) for slot in BUILT_IN["lag"].order)
    file = tmp_path / "mine.toml"
    file.write_text(f'order = "{order}"\nlag_steps = 2\npolicy = "vllm-adaptive:budget_age=2"\n')
    assert load_placement(file).rule == parse_policy("vllm-adaptive:budget_age=2")
    file.write_text(f'order = "{order}"\nlag_steps = 2\npolicy = {{name = "threshold", age = 2, least = 0.5}}\n')
    assert load_placement(file).rule == parse_policy("threshold:age=2,least=0.5")
    file.write_text(f'order = "{order}"\nlag_steps = 2\npolicy = 3\n')
    with pytest.raises(PlacementError, match="policy is 3"):
        load_placement(file)

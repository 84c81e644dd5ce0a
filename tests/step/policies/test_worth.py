"""The table of docs/policies.md leaves no policy out, and its temperatures are judged where they were not fitted."""

import polars as pl

from benchmarks import policies
from simtool.step.placement import resolve_placement
from simtool.step.policies.catalogue import POLICIES
from simtool.trace.trace import open_trace


def test_every_policy_has_a_row():
    names = [policies.BASELINE, policies.BOUND, *(name for group in policies.GROUPS.values() for name in group)]
    rules = {policy.name for name in names if (policy := resolve_placement(name).policy)}
    assert rules >= set(POLICIES) - {"xllm"}  # that is lag-overlap-late and this-step as they are built in
    assert set(policies.CALIBRATED) <= set(names)


def test_halves_share_no_prompt():
    few, many = (open_trace(policies.ROOT / "traces" / name) for name in ("sl7-static", "sl7-c32-static"))
    rest = policies._without(many, few)
    seen, unseen = (set(map(tuple, trace.table("requests")["prompt_ids"].to_list())) for trace in (few, rest))
    assert len(unseen) == rest.table("requests").height == 32
    assert not seen & unseen
    assert set(rest.table("outcomes")["request_id"]) == set(rest.table("requests")["request_id"])


def test_temperatures_are_compared_with_the_same_arm_and_seed():
    rows = [
        {"trace": "t", "profile": "p", "sl": 7, "concurrency": 8, "stale_loss": 0.0, "placement": arm, "seed": seed,
         "refitted": True, "tokens_per_s": speed * seed, "whole_run_tokens_per_s": speed * seed, "step_ns": 1.0}
        for arm, speed in (("lag", 100.0), ("this-step", 80.0))
        for seed in (1, 2, 3)
    ]  # fmt: skip
    raw = pl.DataFrame(rows)
    warm = raw.with_columns(tokens_per_s=pl.col("tokens_per_s") * pl.when(placement="lag").then(1.1).otherwise(0.9))
    gains = dict(policies._warmer(raw, warm).select("placement", "gain").iter_rows())
    assert {name: round(gain, 6) for name, gain in gains.items()} == {"lag": 0.1, "this-step": -0.1}

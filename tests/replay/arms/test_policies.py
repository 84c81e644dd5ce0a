"""Policies as arms of a replay: what they know, what they cost, what the trace says of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest

from simtool.replay.controller_options import ControllerOptions
from simtool.replay.profiling.step_table import step_table, with_step_table
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario, recorded_controller
from simtool.replay.step_planner import Block
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN, resolve_placement
from simtool.step.policies.catalogue import POLICIES
from simtool.step.step_table import StepTable
from simtool.trace.checks.check import check_trace
from simtool.trace.checks.finding import Severity
from tests.replay.synthetic import constant_costs, profile_of, random_costs, random_work, source_trace

CONTROLLER = ControllerSettings(LinearPredictor(0.5, 0.25, 0.001), draft_ms=0.5)
ARMS = [*POLICIES, "this-step@sglang-relay", "this-step@vllm-adaptive:budget_age=3", "lag-overlap@threshold:age=2"]


@pytest.fixture
def source(tmp_path):
    return source_trace(tmp_path / "s", random_work(11, 4, 9), concurrency=3)


@pytest.mark.parametrize("name", ARMS)
def test_every_policy_serves_every_request_and_passes_every_check(source, tmp_path, name):
    profile, placement = profile_of(random_costs(11)), resolve_placement(name)
    replayed = replay(source, profile, Scenario(placement, 3, CONTROLLER))
    found = check_trace(replayed.save(tmp_path / "r"))
    assert [finding for finding in found if finding.severity is Severity.ERROR] == []
    rows = replayed.tables["rows"]
    emitted = rows.group_by("request_id").agg(pl.col("emitted").sum()).sort("request_id")
    asked = source.table("requests").filter(pl.col("output_tokens") > 1).sort("request_id")
    assert emitted["emitted"].to_list() == [tokens - 1 for tokens in asked["output_tokens"]]
    counted = replayed.manifest.details["policy_counters"]
    assert isinstance(counted, dict)
    assert counted.keys() == placement.rule.start().counters.keys()
    trace = replayed.trace(tmp_path / "r")
    assert trace.placement == placement


def test_xllms_controller_decides_the_same_by_its_own_way_and_as_a_policy(source):
    profile = profile_of(random_costs(3))
    for order, age in (("lag", 1), ("lag-overlap", 1), ("this-step", 0)):
        plain = replay(source, profile, Scenario(BUILT_IN[order], 3, CONTROLLER))
        policy = resolve_placement(f"{order}@xllm:age={age}")
        named = replay(source, profile, Scenario(policy, 3, CONTROLLER))
        assert named.tables["rows"].equals(plain.tables["rows"])
        assert named.tables["events"].equals(plain.tables["events"])


def test_the_same_total_and_split_in_either_order_emit_the_same_tokens(source):
    """Where the split is made, on the device or on the host, changes times and no decision."""
    profile = profile_of(random_costs(3))
    device, host = (
        replay(source, profile, Scenario(resolve_placement(name), 3, CONTROLLER))
        for name in ("vllm-adaptive", "this-step@vllm-adaptive")
    )
    assert device.tables["rows"].drop("fresh").equals(host.tables["rows"].drop("fresh"))
    assert any("priced at nothing" in line for line in device.manifest.warnings)
    assert not any("priced at nothing" in line for line in host.manifest.warnings)


def test_no_arm_is_ahead_of_the_oracle(source):
    """Where rows cost nothing a step that cuts no prefix is the cheapest, and the oracle sees that too."""
    costs = constant_costs(pre=1_000, duration=1_000)
    profile = profile_of(costs)
    spans = {}
    for name in ("oracle", "sglang-relay", "vllm-adaptive", "dspark-production", "bandit", "lag-overlap-late"):
        scenario = Scenario(resolve_placement(name), 3, CONTROLLER)
        run = replay(source, profile, with_step_table(source, profile, scenario, ControllerOptions()))
        spans[name] = int(run.tables["steps"]["end_ns"].to_list()[-1])
    assert min(spans, key=lambda name: spans[name]) == "oracle"


def test_the_compiled_simulator_leaves_policies_to_simpy_and_says_so(source):
    profile = profile_of(random_costs(3))
    for name, ran in (("sglang-relay", "simpy"), ("lag", "compiled")):
        run = replay(source, profile, Scenario(resolve_placement(name), 3, CONTROLLER), simulator="compiled")
        assert run.manifest.details["simulator"] == ran


def test_counters_tell_of_cold_rows_and_of_a_ring_that_is_not_deep_yet(source):
    run = replay(source, profile_of(random_costs(3)), Scenario(resolve_placement("sglang-relay"), 3, CONTROLLER))
    rows, counted = run.tables["rows"], run.manifest.details["policy_counters"]
    assert counted["not_ready_steps"] == 2
    steps = rows["step"].unique().sort().to_list()
    late = rows.with_columns(before=pl.col("step").cum_count().over("request_id") - 1)
    stale = late.filter((pl.col("before") < 2) & pl.col("step").is_in(steps[2:])).height
    assert counted["stale_rows"] == stale > 0


def _of_rows():
    profile = profile_of(constant_costs(pre=1_000, duration=20_000))
    target = profile.decode.device["target"]
    priced = dataclasses.replace(
        target, duration=dataclasses.replace(target.duration, per_feature_ns={"target_rows": 5_000.0})
    )
    device = {**profile.decode.device, "target": priced}
    return dataclasses.replace(profile, decode=dataclasses.replace(profile.decode, device=device))


def test_a_step_table_has_no_steps_that_nobody_measured():
    """Most row counts of a long block are those of one batch alone, and still a row is 5 us everywhere."""
    table = step_table(_of_rows(), BUILT_IN["lag"], Block(16, 16), kv_len=10, most_batch=8)
    assert np.diff(table.linear_ms(8, np.arange(8, 129))) == pytest.approx(0.005, rel=0.01)


def test_a_step_table_holds_what_a_replay_takes(source):
    """Costs that are a line in the rows come back: 5 us a validate row on the device, whatever the batch."""
    profile = _of_rows()
    table = step_table(profile, BUILT_IN["lag"], Block(4, 4), kv_len=10, most_batch=4)
    for batch in (1, 2, 3, 4):
        few, many = table.linear_ms(batch, np.array([batch + 1, batch + 3]))
        assert many - few == pytest.approx(2 * 0.005, rel=0.01)
    scenario = Scenario(resolve_placement("vllm-adaptive"), 3, CONTROLLER)
    told = with_step_table(source, profile, scenario, ControllerOptions())
    assert told.controller.table is not None
    assert with_step_table(source, profile, told, ControllerOptions()) == told
    assert with_step_table(source, profile, scenario, ControllerOptions(draft_ms=1.0)) == scenario
    plain = Scenario(BUILT_IN["lag"], 3, CONTROLLER)
    assert with_step_table(source, profile, plain, ControllerOptions()) == plain


def test_the_table_is_kept_in_the_manifest(source, tmp_path):
    table = StepTable((1, 3), (1.0, 2.0), (1, 15), (0.0, 1.5), (0.1, -0.2))
    scenario = Scenario(resolve_placement("vllm-adaptive"), 3, dataclasses.replace(CONTROLLER, table=table))
    saved = replay(source, profile_of(random_costs(3)), scenario).save(tmp_path / "r")
    assert recorded_controller(saved.manifest).table == table

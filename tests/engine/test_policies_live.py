"""Policies run live: greedy output is the target's, a replay repeats their decisions, samples follow the target."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.losslessness import Arm, exact_chances, judge, sample
from simtool.analysis.divergence import mismatches
from simtool.calibrate.fit import calibrate
from simtool.engine.devices.virtual import TimedDevice, VirtualClock, same_durations
from simtool.engine.outcomes.complete import complete_outcomes
from simtool.engine.runner.runner import load_runner
from simtool.engine.runner.spec import SamplingConfig
from simtool.engine.serving.losslessness import sampling_bias
from simtool.engine.serving.session import RunPlan, Session
from simtool.errors import UsageError
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario, recorded_controller
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import resolve_placement
from simtool.trace.trace import open_trace
from tests.engine import golden
from tests.engine.small_runs import random_prompts, reference, requests, runner, serve

#: Costs under which policies prune some sequences and spare others.
CONTROLLER = ControllerSettings(LinearPredictor(1.0, 0.1, 0.0), draft_ms=0.5)
ARMS = [
    "dspark-strict",
    "this-step@dspark-production",
    "this-step@sglang-relay:table=additive",
    "this-step@vllm-adaptive",
    "vllm-ascend:update_every=2,initial=3",
    "threshold:least=0.4",
    "lag@threshold:age=2,least=0.4",
    "this-step@fixed-budget",
    "lag-overlap@vllm-adaptive:split_age=1",
    "bandit",
    "lag-overlap@forecast",
    "lag@xllm",
]
PROMPTS = random_prompts(8, [3, 9, 5, 12, 7, 4, 10], seed=2)
TOKENS = 14


def spec():
    return golden.spec("dspark_b7", 4, kv_blocks=64, block_size=4, context_tokens=48, dtype="float64")


@pytest.mark.parametrize("name", ARMS)
def test_greedy_output_is_the_targets_own(name):
    result, kept = serve(spec(), requests(PROMPTS, TOKENS), resolve_placement(name), controller=CONTROLLER)
    assert list(result.output_ids.values()) == [reference("dspark_b7", prompt, TOKENS) for prompt in PROMPTS]
    assert min(prefix for s in kept.decodes for prefix in s.prefix_lens) < 7
    assert result.counters is not None


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("temperatures", [(), (2.0, 0.5, 1.0, 1.5, 0.7, 3.0, 1.0)], ids=["raw", "calibrated"])
def test_a_replay_repeats_every_decision(tmp_path, name, temperatures):
    s = golden.spec("dspark_b7", slots=3, context_tokens=48)
    device = TimedDevice(load_runner(s), same_durations(1000), VirtualClock(tick_ns=7), one_executor=True)
    placement, controller = resolve_placement(name), replace(CONTROLLER, temperatures=temperatures)
    Session(device, s).record(tmp_path / "live", RunPlan(requests(PROMPTS, TOKENS), placement, controller))
    complete_outcomes(tmp_path / "live", s.target, s.draft)
    live = open_trace(tmp_path / "live")
    profile = calibrate([live], name="test", command="test", created="2026-01-01")
    replayed = replay(live, profile, Scenario(placement, 3, recorded_controller(live.manifest)))
    rows, wrong = mismatches(live, replayed.trace(tmp_path / "replayed"))
    assert rows > 0
    assert wrong == 0
    assert live.placement == placement
    assert live.manifest.details["policy_counters"] == replayed.manifest.details["policy_counters"]


SAMPLED = ["dspark-strict", "this-step@sglang-relay:table=additive", "threshold:least=0.5", "this-step@fixed-budget"]


@pytest.mark.parametrize("name", SAMPLED)
def test_sampled_output_follows_the_target(name):
    """All outputs of four tokens, counted, against their exact chances, as for the built-in placements."""
    count, tokens, drafts, prompt = 2_000, 4, 3, (1, 2, 3, 4)
    sampling, room = SamplingConfig(temperature=1.0, seed=11), len(prompt) + tokens + drafts + 1
    s = golden.spec(
        "dspark_b16", count, kv_blocks=count * room, block_size=1, drafts=drafts, context_tokens=room, sampling=sampling
    )
    arm = Arm(name, name, ControllerSettings(LinearPredictor(0.5, 0.5 / count, 0.0)))
    found = sample(runner(s), s, arm, prompt, tokens, count)
    assert 0 < found.mean_prefix < drafts
    assert judge(found.counts, exact_chances(s.target, prompt, tokens, sampling)).p_value > 1e-3
    assert sampling_bias(resolve_placement(name), arm.controller, sampling, runner(s).info) is None


def test_a_policy_that_looks_ahead_is_warned_of():
    info, sampling = runner(spec()).info, SamplingConfig(temperature=1.0)
    told = sampling_bias(resolve_placement("vllm-ascend"), CONTROLLER, sampling, info)
    assert "in the steps that count" in (told or "")
    assert sampling_bias(resolve_placement("vllm-ascend"), CONTROLLER, SamplingConfig(), info) is None


@pytest.mark.parametrize(("name", "way_out"), [("sglang-relay", "this-step@sglang-relay"), ("oracle", "replay only")])
def test_what_only_a_device_or_nobody_can_do_is_refused(name, way_out):
    device = TimedDevice(runner(spec()), same_durations(1000))
    with pytest.raises(UsageError, match=way_out):
        Session(device, spec()).check(RunPlan(requests(PROMPTS, 4), resolve_placement(name), CONTROLLER))

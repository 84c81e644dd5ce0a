"""Matched sampling end to end: one text whatever is pruned, so outcomes can be filled and any arm replayed exactly."""

from __future__ import annotations

import pytest
import torch

from simtool.analysis.divergence import mismatches
from simtool.calibrate.fit import calibrate
from simtool.engine.devices.virtual import TimedDevice, VirtualClock, same_durations
from simtool.engine.outcomes.reference import DenseSequence
from simtool.engine.outcomes.teacher_forced import TeacherForcedPass
from simtool.engine.runner.matched import perturbed
from simtool.engine.runner.spec import SamplingConfig
from simtool.engine.serving.losslessness import sampling_bias
from simtool.engine.serving.session import RunPlan, Session
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN
from simtool.trace.checks.check import check_trace
from simtool.trace.outcome_coverage import OutcomeCoverage, add_outcomes, requests_without_outcomes
from simtool.trace.trace import open_trace
from tests.engine import golden
from tests.engine import small_runs as serving
from tests.engine.small_runs import PLACEMENTS, full, ragged, random_prompts, requests, runner, serve, zero

SAMPLING = SamplingConfig(temperature=1.0, seed=3, accept="match")
PRUNING = ControllerSettings(LinearPredictor(1.0, 0.1, 0.0))
PROMPTS = random_prompts(5, [5, 9, 4, 12], seed=6)


def spec(name="dspark_b7", **changes):
    return golden.spec(name, slots=3, dtype="float64", sampling=SAMPLING, **changes)


def sampled(name: str, key: int, prompt: tuple[int, ...], tokens: int) -> list[int]:
    """What the target alone draws, one token at a time, one sequence at a time."""
    target, cache, output = serving._target(name), DenseSequence(), list[int]()
    rows, position = list(prompt), 0
    with torch.inference_mode():
        while len(output) < tokens:
            hidden, _ = target(torch.tensor(rows), torch.arange(position, position + len(rows)), cache)
            position += len(rows)
            at = torch.tensor([key]), torch.tensor([position - 1])
            rows = [int(perturbed(target.logits(hidden[-1:]), SAMPLING, *at).argmax())]
            output += rows
    return output


@pytest.mark.parametrize("name", ["dspark_b7", "dflash_b16"])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_any_placement_and_any_prune_gives_the_targets_own_draws(placement, name):
    want = [sampled(name, key, prompt, 10) for key, prompt in enumerate(PROMPTS)]
    assert len({tuple(text) for text in want}) == len(want)
    for prefixes in (zero, full, ragged(4)):
        found, _ = serve(spec(name), requests(PROMPTS, 10), PLACEMENTS[placement], prefixes=prefixes)
        assert list(found.output_ids.values()) == want


def test_no_decision_biases_a_matched_text():
    info = runner(spec("dflash_b16")).info
    rejecting = SamplingConfig(temperature=1.0)
    assert sampling_bias(BUILT_IN["this-step"], PRUNING, rejecting, info)
    assert sampling_bias(BUILT_IN["this-step"], PRUNING, SAMPLING, info) is None


def record(path, placement):
    """A live run on a virtual clock, with gaps where a prune hid the answer."""
    s = spec()
    device = TimedDevice(runner(s), same_durations(1_000), VirtualClock(tick_ns=7), one_executor=True)
    Session(device, s, seed=3).record(path, RunPlan(requests(PROMPTS, 12), BUILT_IN[placement], PRUNING))
    return open_trace(path)


def filled(trace):
    models = serving._target("dspark_b7"), runner(spec())._draft
    teacher_forced, keys = TeacherForcedPass(*models, 7, SAMPLING), trace.manifest.run.sample_keys
    found = {
        name: teacher_forced.outcomes(prompt, output, key=keys[name])
        for name, prompt, output in requests_without_outcomes(trace)
    }
    assert not any(each.flips for each in found.values())
    return add_outcomes(trace, found)


def test_outcomes_are_filled_and_agree_with_the_run(tmp_path):
    trace = filled(record(tmp_path / "lag", "lag"))
    report = OutcomeCoverage.of(trace)
    assert (report.anchors, report.filled, report.disagreeing) == (48, 48, 0)
    assert report.both > 0
    assert not trace.manifest.drawn
    assert check_trace(trace) == []


@pytest.mark.parametrize("placement", ["static", "this-step", "lag-overlap"])
def test_a_replay_from_another_arm_emits_what_the_live_arm_did(tmp_path, placement):
    source, live = filled(record(tmp_path / "source", "lag")), record(tmp_path / "live", placement)
    profile = calibrate([source, live], name="test", command="test", created="2026-01-01")
    replayed = replay(source, profile, Scenario(BUILT_IN[placement], 3, PRUNING)).trace(tmp_path / "replayed")
    rows, wrong = mismatches(live, replayed)
    assert rows > 0
    assert wrong == 0
    assert replayed.manifest.details["outcomes"] == "exact"

"""The fill-in pass: the outcome of every anchor, equal to what a live block at that anchor gives."""

from __future__ import annotations

import pytest

from simtool.engine.devices.virtual import TimedDevice, same_durations
from simtool.engine.outcomes.reference import DenseSequence, _draft_block, _extend_context, target_only
from simtool.engine.outcomes.teacher_forced import TeacherForcedPass
from simtool.engine.serving.session import RunPlan, Session
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.trace.outcome_coverage import OutcomeCoverage, add_outcomes, requests_without_outcomes
from simtool.trace.trace import open_trace
from tests.engine import golden
from tests.engine import small_runs as serving
from tests.engine.small_runs import PLACEMENTS, random_prompts, requests, runner

PRUNING = ControllerSettings(LinearPredictor(1.0, 0.1, 0.0))


def models(name):
    loaded = runner(golden.spec(name, slots=3, dtype="float64"))
    return serving._target(name), loaded._draft


def outcome_at(target, draft, tokens, anchor, drafts):
    """One block drafted at one anchor, the slow way, and the target's own continuation."""
    import torch  # noqa: PLC0415

    context = DenseSequence()
    positions = torch.arange(anchor)
    _, features = target(torch.tensor(tokens[:anchor]), positions, DenseSequence(), draft.config.tap_ids)
    _extend_context(draft, context, features, positions)
    block, _, confidence = _draft_block(draft, context, tokens[anchor], anchor, drafts)
    own = target_only(target, tokens[: anchor + 1], drafts)
    return [*(a == b for a, b in zip(block, own, strict=True)), False].index(False), confidence


@pytest.mark.parametrize("drafts", [3, 15])
@pytest.mark.parametrize("name", ["dspark_b7", "dflash_b16"])
def test_every_anchor_equals_a_block_drafted_there(name, drafts):
    target, draft = models(name)
    prompt = list(random_prompts(5, [11], seed=2)[0])
    output = target_only(target, prompt, 9)
    filled = TeacherForcedPass(target, draft, drafts).outcomes(prompt, output)
    assert (filled.start, filled.flips) == (11, {})
    assert len(filled.match_run) == len(filled.confidence) == len(filled.draft_prob) == 9
    for k in range(9):
        match_run, confidence = outcome_at(target, draft, prompt + output, 11 + k, drafts)
        assert filled.match_run[k] == match_run
        assert filled.confidence[k] == pytest.approx(confidence, abs=1e-6)


def test_more_anchors_than_one_pass_takes():
    target, draft = models("dspark_b7")
    prompt = [3, 1]
    output = target_only(target, prompt, 70)
    filled = TeacherForcedPass(target, draft, 7).outcomes(prompt, output)
    assert len(filled.match_run) == 70
    for k in (0, 63, 64, 69):
        assert filled.match_run[k] == outcome_at(target, draft, prompt + output, 2 + k, 7)[0]


def test_an_output_that_is_not_the_targets_is_counted():
    target, draft = models("dspark_b7")
    output = target_only(target, [3, 1], 8)
    output[4] = (output[4] + 1) % 8
    flips = TeacherForcedPass(target, draft, 7).outcomes([3, 1], output).flips
    assert flips[6] > 0.01  # positions count from the prompt's first token, and no rounding explains this one


def test_filled_and_visited_outcomes_of_a_pruned_run_agree(tmp_path):
    """Add what is missing, in two goes; every visited anchor is confirmed."""
    spec = golden.spec("dspark_b7", slots=3, dtype="float64")
    device = TimedDevice(runner(spec), same_durations(1_000))
    prompts = requests(random_prompts(8, [5, 9, 4, 12]), 10)
    Session(device, spec).record(tmp_path / "b", RunPlan(prompts, PLACEMENTS["lag"], PRUNING))
    target, draft = models("dspark_b7")
    teacher_forced, trace = TeacherForcedPass(target, draft, 7), open_trace(tmp_path / "b")
    todo = requests_without_outcomes(trace)
    assert len(todo) == 4
    for chunk in (todo[:1], todo[1:]):
        trace = add_outcomes(trace, {name: teacher_forced.outcomes(prompt, output) for name, prompt, output in chunk})
        assert len(requests_without_outcomes(trace)) == (3 if chunk == todo[:1] else 0)
    report = OutcomeCoverage.of(trace)
    assert trace.table("steps")["pruned"].any()
    assert (report.anchors, report.filled, report.disagreeing) == (40, 40, 0)
    assert report.both == trace.table("outcomes").filter(source="visited").drop_nulls("match_run").height > 0
    assert report.confidence_gap < 1e-6

"""The answers with the syncs: hand-made effects, draws that turn an answer where they should, and the page."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from xllm_2280.syncs.answers import TAKEN_APART, answer_machine, total_exposed
from xllm_2280.syncs.document import document
from xllm_2280.syncs.draws import _turn, answer_draws, drawn_figures, factors
from xllm_2280.syncs.questions import NEEDED, QUESTIONS, CellFigures, Question, effect, holds
from xllm_2280.syncs.variants import BY_KEY, VARIANTS

from simtool.profile.published import AssumedFigure, constructed_profile
from simtool.step.controller import LinearPredictor
from simtool.study.runner import Setting
from tests.replay.synthetic import random_work, source_trace

FIGURES = Path(__file__).parents[2] / "models" / "profiles" / "xllm-2280-like.toml"
TEN_PERCENT = Question("ten per cent", "slow", "fast", 0.1)


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    """The pull request's machine with a predictor that prunes these made-up blocks."""
    source = source_trace(tmp_path_factory.mktemp("syncs") / "source", random_work(3, 5, 8, tokens=30))
    profile = constructed_profile(FIGURES, "2026-01-01")
    return Setting(source, dataclasses.replace(profile, predictor=LinearPredictor(1.0, 0.5, 0.0)), 2)


def test_effects_by_hand():
    found = {"slow": CellFigures(200.0, 10.0, 0.0), "fast": CellFigures(150.0, 12.0, 0.0)}
    assert effect(TEN_PERCENT, found) == 0.25
    assert effect(dataclasses.replace(TEN_PERCENT, by_tokens=True), found) == pytest.approx(0.2)
    assert holds(TEN_PERCENT, 0.25)
    assert not holds(TEN_PERCENT, 0.1)


def test_every_question_is_about_variants_that_there_are():
    assert set(NEEDED) | set(TAKEN_APART) <= set(BY_KEY)
    assert len(BY_KEY) == len(VARIANTS)


def test_pinning_everything_is_the_step_without_syncs(setting):
    answer = answer_machine(setting, "made up", processes=1)
    figures = answer.figures
    assert 0 < answer.pruned_share <= 1
    # the confidence is stored at another place behind the tokens, where nothing overlaps
    assert figures["both pinned"].step_ns == figures["plain lag-overlap"].step_ns < figures["lag-overlap"].step_ns
    assert figures["both pinned"].step_ns <= figures["fill pinned"].step_ns <= figures["lag-overlap"].step_ns
    exposed = dict(zip(TAKEN_APART, total_exposed(answer), strict=True))
    assert exposed["lag-overlap"] > exposed["both pinned"]
    by_op = {each.op: dict(zip(TAKEN_APART, each.exposed_us, strict=True)) for each in answer.exposed}
    assert by_op["launch_target"]["lag-overlap"] > by_op["launch_target"]["fill pinned"] == 0
    assert any("where it syncs: its own cost and the wait" in line for line in answer.caveats.lines())


def test_draws_stay_in_their_ranges_and_fill_them():
    figures = drawn_figures(FIGURES)
    assert not {"prefill", "loop_gap", "decide"} & {figure.name for figure in figures}
    drawn = factors(figures, 6, 1)
    assert drawn.shape == (64, len(figures))
    for column, figure in zip(drawn.T, figures, strict=True):
        assert figure.low <= column.min() < 1 < column.max() <= figure.high
        middle = np.sqrt(figure.low * figure.high)
        assert 28 <= (column < middle).sum() <= 36  # even in the logarithm, as a Sobol design is
    assert (factors(figures, 6, 1) == drawn).all()


def test_the_assumption_that_turns_an_answer_is_found():
    """Yes where the figure is above 200 us, and a second figure that has nothing to do with it."""
    draw = np.random.default_rng(0)
    telling, idle = draw.uniform(0.5, 4, 256), draw.uniform(0.5, 4, 256)
    effects = np.where(telling > 2, 0.2, 0.0) + telling / 100
    one = _turn(TEN_PERCENT, AssumedFigure("launch", 100.0, 0.5, 4), telling, effects)
    other = _turn(TEN_PERCENT, AssumedFigure("idle", 100.0, 0.5, 4), idle, effects)
    assert one.rank > 0.9 > 0.3 > other.rank
    assert (one.above, one.told) == (True, 1.0)
    assert one.threshold_us == pytest.approx(200, rel=0.05)
    falling = _turn(TEN_PERCENT, AssumedFigure("launch", 100.0, 0.5, 4), 4.5 - telling, effects)
    assert (falling.above, falling.told) == (False, 1.0)
    assert falling.threshold_us == pytest.approx(250, rel=0.05)
    assert _turn(TEN_PERCENT, AssumedFigure("launch", 100.0, 0.5, 4), telling, effects + 1).told is None


def test_the_page_gives_counts_with_every_answer(setting):
    answers = [answer_machine(setting, "made up", processes=1)]
    drawn = answer_draws(setting, FIGURES, power=2, processes=1)
    assert [each.at_assumed for each in drawn] == [effect(each.question, answers[0].figures) for each in drawn]
    page = document(answers, drawn, draws_of="made up", live=[], made_by="python -m xllm_2280.syncs")
    for question, each in zip(QUESTIONS, drawn, strict=True):
        row = next(line for line in page.splitlines() if line.startswith(f"| {question.text} |"))
        assert f"{each.yes} of 4" in row
    assert "Not measured yet" in page

"""Sampling follows the target under static and lagged decisions; a decision on this step's confidence may bias it.

The DSpark paper (appendix A) warns of a search that is free to take a long prefix where it refused a short one: what
is offered then depends on the tokens that are judged. Seeds are fixed: no test is a matter of luck.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
import torch
from scipy.stats import chisquare

from benchmarks.losslessness import Arm, arms, exact_chances, judge, sample
from simtool.engine.runner.sampling import Dice, DraftPicker, probabilities, verify_sampled
from simtool.engine.runner.spec import RunnerSpec, SamplingConfig
from simtool.engine.serving.losslessness import sampling_bias
from simtool.step.controller import ControllerSettings, LinearPredictor, prefix_lengths
from simtool.step.placement import BUILT_IN
from tests.engine import golden
from tests.engine.small_runs import runner

TOO_UNLIKELY = 1e-3
REQUESTS, TOKENS, DRAFTS, PROMPT = 2_000, 4, 3, (1, 2, 3, 4)
SAMPLING = SamplingConfig(temperature=1.0, seed=11)


def spec(name: str) -> RunnerSpec:
    room = len(PROMPT) + TOKENS + DRAFTS + 1
    return golden.spec(
        name, REQUESTS, kv_blocks=REQUESTS * room, block_size=1, drafts=DRAFTS, context_tokens=room, sampling=SAMPLING
    )


def judged(name: str, placement: str):
    s = spec(name)
    arm = next(arm for arm in arms(REQUESTS) if arm.name == placement)
    drawn = sample(runner(s), s, arm, PROMPT, TOKENS, REQUESTS)
    return drawn.mean_prefix, judge(drawn.counts, exact_chances(s.target, PROMPT, TOKENS, SAMPLING))


@pytest.mark.parametrize("placement", ["static", "lag", "lag-overlap", "this-step"])
def test_outputs_follow_the_target(placement):
    """All outputs of four tokens, counted, against their exact chances: a DSpark drafter, prunes of every width."""
    mean_prefix, judgement = judged("dspark_b16", placement)
    assert mean_prefix == DRAFTS if placement == "static" else 0 < mean_prefix < DRAFTS
    assert judgement.cells > 50
    assert judgement.p_value > TOO_UNLIKELY


def test_a_decision_on_the_drafts_own_probability_biases_the_output():
    """DFlash has no confidence head: its confidence is the chance of the very token that is judged."""
    lagged, ours = judged("dflash_b16", "lag"), judged("dflash_b16", "this-step")
    assert lagged[1].p_value > TOO_UNLIKELY
    assert ours[1].p_value < 1e-9
    assert ours[1].distance > 1.5 * ours[1].distance_by_chance


COSTS = LinearPredictor(0.0, 1.0, 0.0)


@dataclass(frozen=True)
class Paper:
    """The appendix's case: tokens A and B, c1 = 0.8 whatever is drafted, c2 = 0.9 after A and 0 after B."""

    target = torch.tensor([[0.7, 0.3]] * 3).log()
    proposal = torch.tensor([[0.5, 0.5]] * 2).log()

    def first_tokens(self, controller: ControllerSettings, count: int = 40_000) -> list[int]:
        """How often A and B come out first when each sequence's prefix is decided from its own drafts."""
        dice = Dice(5, torch.arange(count), torch.zeros(count, dtype=torch.int64))
        config = SamplingConfig(temperature=1.0)
        picker = DraftPicker(config, dice, 2)
        drafts = picker(self.proposal.expand(count, 2, 2))
        prefixes = [self.decided(token, controller) for token in (0, 1)]
        widths = 1 + torch.tensor(prefixes)[drafts[:, 0]]
        cu_rows = torch.cat((torch.zeros(1, dtype=torch.int64), widths.cumsum(0)))
        logits = self.target[:1].expand(int(widths.sum()), 2)
        verdict = verify_sampled(logits, cu_rows, drafts, picker.proposal, config, dice)
        return torch.bincount(verdict.tokens[:, 0], minlength=2).tolist()

    @staticmethod
    def decided(first: int, c: ControllerSettings) -> int:
        confidence = [0.8, 0.9 if first == 0 else 0.0]
        return prefix_lengths([confidence], [0.0], c.predictor, c.draft_ms, c.min_gain)[0]


def test_the_papers_counterexample_needs_a_least_gain_here():
    """With min_gain the scan refuses one draft and takes two, so A is offered and B is not: A comes out too often.

    Without it, linear costs make a refused draft refuse all that follow it, and nothing is biased.
    """
    paper = Paper()
    jumping = ControllerSettings(LinearPredictor(1.0, 0.2, 0.0), min_gain=0.6)
    assert [paper.decided(token, jumping) for token in (0, 1)] == [2, 0]
    seen = paper.first_tokens(jumping)
    hoped = [0.7 * sum(seen), 0.3 * sum(seen)]
    assert chisquare(seen, hoped).pvalue < 1e-9
    assert seen[0] / sum(seen) == pytest.approx(0.5 + 0.5 * 0.7, abs=0.01)  # A drafted: always kept; B: drawn anew
    steady = ControllerSettings(LinearPredictor(1.0, 0.2, 0.0))
    assert [paper.decided(token, steady) for token in (0, 1)] == [2, 1]
    seen = paper.first_tokens(steady)
    assert chisquare(seen, [0.7 * sum(seen), 0.3 * sum(seen)]).pvalue > TOO_UNLIKELY


def test_without_a_least_gain_no_draft_is_offered_for_what_follows_it():
    """Whether draft k of a sequence is offered never depends on its own confidences after k."""
    rng = random.Random(1)
    decided = set()
    for _ in range(1500):
        batch, n = rng.randint(1, 5), rng.randint(2, 6)
        confidence = [[rng.random() ** 0.3 for _ in range(n)] for _ in range(batch)]
        kv_lens = [rng.randint(1, 50) for _ in range(batch)]
        predictor = LinearPredictor(rng.random(), rng.random() * 0.5, rng.random() * 0.01)
        i, k = rng.randrange(batch), rng.randint(1, n - 1)
        other = [list(row) for row in confidence]
        other[i][k:] = [rng.random() for _ in range(n - k)]
        offered = [prefix_lengths(c, kv_lens, predictor)[i] >= k for c in (confidence, other)]
        assert offered[0] == offered[1]
        decided.add(offered[0])
    assert decided == {True, False}


def test_the_warning_names_what_may_bias():
    s = spec("dspark_b16")
    info = runner(s).info
    headless = runner(spec("dflash_b16")).info
    plain, least = ControllerSettings(COSTS), ControllerSettings(COSTS, min_gain=0.1)
    this_step, lag = BUILT_IN["this-step"], BUILT_IN["lag"]
    greedy = SamplingConfig()
    for placement, controller, sampling, which in (
        (this_step, plain, SAMPLING, info),
        (this_step, least, greedy, headless),
        (lag, least, SAMPLING, headless),
        (BUILT_IN["static"], plain, SAMPLING, headless),
    ):
        assert sampling_bias(placement, controller, sampling, which) is None
    assert "min_gain" in (sampling_bias(this_step, least, SAMPLING, info) or "")
    assert "the very token" in (sampling_bias(this_step, plain, SAMPLING, headless) or "")


def test_the_judge_can_fail():
    """Counts from another temperature do not pass."""
    s = spec("dspark_b16")
    drawn = sample(runner(s), s, Arm("static", "static", ControllerSettings()), PROMPT, 2, 400)
    wrong = exact_chances(s.target, PROMPT, 2, SamplingConfig(temperature=2.0))
    assert judge(drawn.counts, wrong).p_value < 1e-9


def test_exact_chances_sum_to_one():
    chances = exact_chances(spec("dspark_b16").target, PROMPT, 2, SAMPLING)
    assert len(chances) == 64
    assert sum(chances.values()) == pytest.approx(1)
    assert probabilities(torch.zeros(1, 2), SAMPLING).tolist() == [[0.5, 0.5]]

"""Matched sampling: the target's distribution, by numbers of the position alone. Seeds are fixed."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import chisquare, gumbel_r, kstest

from simtool.engine.runner.matched import gumbel, perturbed
from simtool.engine.runner.sampling import Dice, probabilities
from simtool.engine.runner.spec import SamplingConfig
from simtool.errors import UsageError

TOO_UNLIKELY = 1e-3


def rows(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and positions, no pair twice."""
    return torch.arange(count) % 50, torch.arange(count) // 50


def test_noise_is_standard_gumbel():
    noise = gumbel(Dice(7, *rows(200)), 500).double()
    assert noise.shape == (200, 500)
    assert kstest(noise.flatten().numpy(), gumbel_r.cdf).pvalue > TOO_UNLIKELY


@pytest.mark.parametrize("axis", [0, 1])
def test_neighbouring_rows_and_tokens_have_noise_of_their_own(axis):
    noise = gumbel(Dice(3, *rows(400)), 400).double()
    one, next_one = noise.narrow(axis, 0, 399).flatten(), noise.narrow(axis, 1, 399).flatten()
    correlation = float(torch.corrcoef(torch.stack((one, next_one)))[0, 1])
    assert abs(correlation) < 4 / len(one) ** 0.5


def test_noise_depends_on_seed_request_position_and_token_alone():
    keys, positions = torch.tensor([4, 9, 2]), torch.tensor([10, 3, 77])
    together = gumbel(Dice(1, keys, positions), 6)
    for i in range(3):
        assert torch.equal(gumbel(Dice(1, keys[i : i + 1], positions[i : i + 1]), 6)[0], together[i])
    assert torch.equal(gumbel(Dice(1, keys, positions), 4), together[:, :4])
    others = [Dice(2, keys, positions), Dice(1, keys + 1, positions), Dice(1, keys, positions + 1)]
    assert not any((gumbel(other, 6) == together).any() for other in others)


@pytest.mark.parametrize(
    "config",
    [
        SamplingConfig(temperature=0.6, accept="match"),
        SamplingConfig(temperature=1.3, top_k=4, accept="match"),
        SamplingConfig(temperature=0.8, top_p=0.7, seed=5, accept="match"),
    ],
)
def test_the_likeliest_score_is_a_draw_from_the_target(config):
    logits = torch.tensor([1.0, 0.2, -0.5, 1.4, 0.0, -2.0])
    count = 20_000
    drawn = perturbed(logits.expand(count, 6), config, *rows(count)).argmax(-1)
    expected = probabilities(logits, config).double()
    allowed = expected > 0
    assert bool(allowed[drawn].all())
    seen = torch.bincount(drawn, minlength=6)[allowed].double()
    share = expected[allowed] / expected[allowed].sum()
    assert chisquare(seen.numpy(), (share * count).numpy()).pvalue > TOO_UNLIKELY


def test_float64_logits_stay_float64():
    config = SamplingConfig(temperature=1.0, accept="match")
    assert perturbed(torch.zeros(3, 5, dtype=torch.float64), config, *rows(3)).dtype == torch.float64
    assert perturbed(torch.zeros(3, 5, dtype=torch.float16), config, *rows(3)).dtype == torch.float32


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"accept": "match"}, "accept match: would change nothing at temperature 0"),
        ({"temperature": 1.0, "accept": "guess"}, "accept is 'guess'; expected one of reject, match"),
        ({"temperature": 1.0, "accept": "match", "greedy_draft": True}, "greedy_draft: would change nothing"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(UsageError, match=message):
        SamplingConfig(**fields)

"""What the target learns from its own text: which tokens are faults, and that amends move weight off them."""

from __future__ import annotations

import numpy as np
import torch

from models.training.common import CausalBatch
from models.training.own_text import LEAST_RUN, OwnText, fresh_share, loop_mask
from models.training.train_target import fresh_target, small_config

VOCAB = 40


def test_a_token_is_a_loop_once_a_whole_period_has_come_back():
    period = [1, 2, 3, 4, 5, 6]
    tokens = torch.tensor([[9, *period, *period, 7, 8]])
    assert loop_mask(tokens, 0).nonzero()[:, 1].tolist() == [12]


def test_one_token_repeated_is_a_loop_after_the_least_run():
    tokens = torch.tensor([[1, *[2] * 8, 3]])
    assert loop_mask(tokens, 0).nonzero()[:, 1].tolist() == list(range(1 + LEAST_RUN, 9))
    assert not loop_mask(tokens, 9).any()


def test_fresh_share_falls_where_a_text_circles():
    rng = torch.Generator().manual_seed(0)
    circling, fresh = torch.arange(60) % 20, torch.randint(0, 10_000, (60,), generator=rng)
    shares = fresh_share(torch.stack((circling, fresh)))
    assert shares[0] == 20 / 55
    assert shares[1] == 1.0


def test_amends_take_weight_off_the_faults_and_give_it_to_no_broken_byte():
    broken = torch.zeros(VOCAB, dtype=torch.bool)
    broken[30:] = True
    model = fresh_target(small_config(VOCAB, 0), seed=0)
    stream = np.arange(400, dtype=np.int32) % 7
    own = OwnText(stream, broken, np.random.default_rng(0), prompt=8, length=40)
    own.refresh(model, count=8)
    assert own.faults.any()  # an untrained model repeats itself

    def weights() -> tuple[float, float]:
        with torch.no_grad():
            hidden, _ = model(own.faulty[0], torch.arange(40), CausalBatch(40))
            p = model.logits(hidden).softmax(-1)
        return p[:-1].gather(-1, own.faulty[0][1:, None])[own.faults[0][1:]].mean().item(), p[:, 30:].sum().item()

    before = weights()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for _ in range(10):
        loss = own.amends(model, 8)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    after = weights()
    assert after[0] < before[0]
    assert after[1] <= before[1]

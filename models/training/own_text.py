"""What the target learns from its own greedy text: not to loop, and to mean what it says.

Small models fall into loops under greedy decoding. Now and then the target continues training prompts greedily; where
it goes on repeating itself, its next best tokens become the goal, beside the usual loss on real text (on-policy, so it
meets the loops that the model really has; compare sequence-level unlikelihood, Welleck et al. 2020).

A small model is also flat: near ties everywhere, decided by detail that no drafter can see, where a model that people
deploy has been trained after pretraining and is far surer of its text. So texts drawn below temperature 1 that do not
circle are learned too, -log(p(token)): self-training, which keeps the common turns of phrase and drops the accidents.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from models.training.common import CausalBatch
from models.training.greedy_text import continue_greedily, continue_sampled
from simtool.engine.models.target import TargetModel

LONGEST_PERIOD = 64
LEAST_RUN = 5
ALTERNATIVES = 8
TEMPERATURE = 0.6
LEAST_FRESH = 0.75  # share of a sound text's 6-grams that are new when they come


def loop_mask(tokens: Tensor, first: int) -> Tensor:
    """[B, T] -> bool [B, T]: tokens from ``first`` on that repeat what came one period before.

    A token counts when it ends a run of at least a whole period (and LEAST_RUN tokens) that equals the run before.
    """
    looping = torch.zeros_like(tokens, dtype=torch.bool)
    for period in range(1, LONGEST_PERIOD + 1):
        equal = tokens[:, period:] == tokens[:, :-period]
        index = torch.arange(equal.shape[1]).expand_as(equal)
        last_break = torch.where(equal, -1, index).cummax(dim=1).values
        looping[:, period:] |= (index - last_break) >= max(period, LEAST_RUN)
    looping[:, :first] = False
    return looping


def fresh_share(tokens: Tensor, size: int = 6) -> Tensor:
    """[B, T] -> [B]: distinct ``size``-grams of each text over all of them; low where it circles without looping."""
    grams = tokens.unfold(1, size, 1)
    return torch.tensor([len(torch.unique(text, dim=0)) for text in grams]) / grams.shape[1]


class OwnText:
    """The target's recent continuations of training prompts: greedy ones with faults, drawn ones without.

    ``broken`` [V] marks the ids that are no text by themselves (bytes of a character): a fault wherever they come.
    """

    def __init__(
        self, stream: np.ndarray, broken: Tensor, rng: np.random.Generator, prompt: int = 48, length: int = 208
    ) -> None:
        self.stream, self.broken, self.rng, self.prompt, self.length = stream, broken, rng, prompt, length
        self.draws = torch.Generator().manual_seed(int(rng.integers(2**31)))
        self.faulty = torch.empty(0, length, dtype=torch.long)
        self.faults = torch.empty(0, length, dtype=torch.bool)
        self.sound = torch.empty(0, length, dtype=torch.long)

    def refresh(self, model: TargetModel, count: int = 192, keep: int = 384) -> None:
        """Continue ``count`` fresh prompts either way; keep the newest ``keep``."""
        starts = self.rng.integers(0, len(self.stream) - self.prompt, size=count)
        prompts = torch.from_numpy(np.stack([self.stream[s : s + self.prompt] for s in starts]).astype(np.int64))
        greedy = continue_greedily(model, prompts, self.length).clone()
        faults = self._faults(greedy)
        faulty = faults.any(dim=1)
        self.faulty = torch.cat((greedy[faulty], self.faulty))[:keep]
        self.faults = torch.cat((faults[faulty], self.faults))[:keep]
        drawn = continue_sampled(model, prompts, self.length, TEMPERATURE, self.draws).clone()
        sound = ~self._faults(drawn).any(dim=1) & (fresh_share(drawn[:, self.prompt :]) >= LEAST_FRESH)
        self.sound = torch.cat((drawn[sound], self.sound))[:keep]

    def amends(self, model: TargetModel, count: int) -> Tensor:
        """Cross-entropy, at the faults of ``count`` texts, to what the target likes best there besides the fault.

        Pushing the fault down alone (unlikelihood) lifts whatever no real text has ever pushed down: stray bytes.
        """
        if len(self.faulty) == 0:
            return torch.zeros(())
        picked = self._pick(len(self.faulty), count)
        tokens, mask = self.faulty[picked], self.faults[picked][:, 1:].reshape(-1)
        log_p, taken = _log_p(model, tokens, mask)
        with torch.no_grad():
            wanted = log_p.exp().masked_fill(self.broken, 0.0).scatter(-1, taken, 0.0)
            best = wanted.topk(ALTERNATIVES, dim=-1)
            share = best.values / best.values.sum(-1, keepdim=True)
        return -(share * log_p.gather(-1, best.indices)).sum(-1).mean()

    def surprise(self, model: TargetModel, count: int) -> Tensor:
        """Mean of -log(p) over the drawn tokens of ``count`` texts that do not loop (0 where there are none)."""
        if len(self.sound) == 0:
            return torch.zeros(())
        tokens = self.sound[self._pick(len(self.sound), count)]
        own = (torch.arange(1, self.length) >= self.prompt).repeat(count)
        log_p, taken = _log_p(model, tokens, own)
        return -log_p.gather(-1, taken).mean()

    def _faults(self, tokens: Tensor) -> Tensor:
        broken = self.broken[tokens]
        broken[:, : self.prompt] = False
        return loop_mask(tokens, self.prompt) | broken

    def _pick(self, among: int, count: int) -> Tensor:
        return torch.from_numpy(self.rng.integers(0, among, size=count))


def _log_p(model: TargetModel, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """At the masked tokens of [B, T] texts: log p [M, V] and the tokens [M, 1]; mask [B * (T - 1)] skips the first."""
    count, length = tokens.shape[0], tokens.shape[1] - 1
    hidden, _ = model(tokens[:, :-1].reshape(-1), torch.arange(length).repeat(count), CausalBatch(length))
    return model.logits(hidden[mask]).float().log_softmax(-1), tokens[:, 1:].reshape(-1)[mask][:, None]

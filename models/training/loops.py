"""Against loops: unlikelihood on the target's own repetitions.

Small models fall into loops under greedy decoding. Now and then the target continues training prompts greedily; the
tokens with which it goes on repeating itself become a loss, -log(1 - p(token)), beside the usual one on real text
(sequence-level unlikelihood, Welleck et al. 2020: on-policy, so it meets the loops that the model really has).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from models.training.common import CausalBatch
from models.training.greedy_text import continue_greedily
from simtool.engine.target import TargetModel

LONGEST_PERIOD = 32
LEAST_RUN = 8


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


class LoopPool:
    """Recent greedy continuations that loop, with the masks of their looping tokens."""

    def __init__(self, stream: np.ndarray, rng: np.random.Generator, prompt: int = 48, length: int = 176) -> None:
        self.stream, self.rng, self.prompt, self.length = stream, rng, prompt, length
        self.tokens = torch.empty(0, length, dtype=torch.long)
        self.masks = torch.empty(0, length, dtype=torch.bool)

    def refresh(self, model: TargetModel, count: int = 192, keep: int = 384) -> float:
        """Continue ``count`` fresh prompts; keep the newest ``keep`` loopers. Returns the share that loops now."""
        starts = self.rng.integers(0, len(self.stream) - self.prompt, size=count)
        prompts = np.stack([self.stream[s : s + self.prompt] for s in starts]).astype(np.int64)
        tokens = continue_greedily(model, torch.from_numpy(prompts), self.length).clone()
        masks = loop_mask(tokens, self.prompt)
        looping = masks.any(dim=1)
        self.tokens = torch.cat((tokens[looping], self.tokens))[:keep]
        self.masks = torch.cat((masks[looping], self.masks))[:keep]
        return looping.float().mean().item()

    def loss(self, model: TargetModel, count: int) -> Tensor:
        """Mean unlikelihood of the looping tokens of ``count`` pooled sequences (0 with an empty pool)."""
        if len(self.tokens) == 0:
            return torch.zeros(())
        picked = torch.from_numpy(self.rng.integers(0, len(self.tokens), size=count))
        tokens, mask = self.tokens[picked], self.masks[picked][:, 1:].reshape(-1)
        length = self.length - 1
        hidden, _ = model(tokens[:, :-1].reshape(-1), torch.arange(length).repeat(count), CausalBatch(length))
        logits = model.logits(hidden[mask]).float()
        taken = logits.log_softmax(-1).gather(-1, tokens[:, 1:].reshape(-1)[mask][:, None]).exp()
        return -torch.log1p(-taken.clamp(max=1 - 1e-4)).mean()

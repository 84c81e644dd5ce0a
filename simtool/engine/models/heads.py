"""Markov heads, which correct each draft's logits by the token before it, and the confidence head.

Shapes: B sequences, N drafts a block, V vocabulary, r Markov rank, H hidden size. prev(1) is the anchor,
prev(k) is draft k-1; e_k is the Markov embedding of prev(k); h_k is the post-norm row that made base logits k.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

MarkovType = Literal["vanilla", "gated", "rnn"]
MARKOV_TYPES: tuple[MarkovType, ...] = ("vanilla", "gated", "rnn")


class MarkovHead(nn.Module):
    """The vanilla head: correction = markov_w2 e_k. Subclasses put a gate or a small recurrence in between."""

    def __init__(self, vocab: int, rank: int, hidden: int) -> None:
        super().__init__()
        self.rank = rank
        self.hidden = hidden
        self.markov_w1 = nn.Embedding(vocab, rank)
        self.markov_w2 = nn.Linear(rank, vocab, bias=False)

    def embed(self, previous: Tensor) -> Tensor:
        """Tokens [...] -> e [..., r]."""
        embedded: Tensor = self.markov_w1(previous)
        return embedded

    def initial_state(self, batch: int) -> Tensor:
        """The state before draft 1, [B, r] of zeros (only the rnn head reads it)."""
        return self.markov_w2.weight.new_zeros(batch, self.rank)

    def step(self, embedded: Tensor, hidden: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One draft: e_k [B, r], h_k [B, H], state [B, r] -> logit correction [B, V], next state [B, r]."""
        return self.markov_w2(embedded), state


class GatedMarkovHead(MarkovHead):
    """correction = markov_w2 (sigmoid(gate_proj[h_k; e_k]) * e_k)."""

    def __init__(self, vocab: int, rank: int, hidden: int) -> None:
        super().__init__(vocab, rank, hidden)
        self.gate_proj = nn.Linear(hidden + rank, rank)

    def step(self, embedded: Tensor, hidden: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """As in :class:`MarkovHead`."""
        gate = torch.sigmoid(self.gate_proj(torch.cat((hidden, embedded), dim=-1)))
        return self.markov_w2(gate * embedded), state


class RnnMarkovHead(MarkovHead):
    """[g; c; o] = joint_proj[s; e_k; h_k]; s' = sigmoid(g) s + (1 - sigmoid(g)) tanh(c); markov_w2 tanh(o)."""

    def __init__(self, vocab: int, rank: int, hidden: int) -> None:
        super().__init__(vocab, rank, hidden)
        self.joint_proj = nn.Linear(2 * rank + hidden, 3 * rank)

    def step(self, embedded: Tensor, hidden: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """As in :class:`MarkovHead`."""
        joint = self.joint_proj(torch.cat((state, embedded, hidden), dim=-1))
        gate, candidate, out = joint.chunk(3, dim=-1)
        gate = torch.sigmoid(gate)
        state = gate * state + (1 - gate) * torch.tanh(candidate)
        return self.markov_w2(torch.tanh(out)), state


def markov_head(kind: MarkovType, vocab: int, rank: int, hidden: int) -> MarkovHead:
    """The head of that type."""
    classes = {"vanilla": MarkovHead, "gated": GatedMarkovHead, "rnn": RnnMarkovHead}
    return classes[kind](vocab, rank, hidden)


class ConfidenceHead(nn.Module):
    """A linear on h_k, and on e_k where ``rank`` is not 0."""

    def __init__(self, hidden: int, rank: int, *, bias: bool) -> None:
        super().__init__()
        self.proj = nn.Linear(hidden + rank, 1, bias=bias)

    def forward(self, hidden: Tensor, embedded: Tensor | None) -> Tensor:
        """h [B, N, H] and e [B, N, r] (None without Markov features) -> logits [B, N], before the sigmoid."""
        features = hidden if embedded is None else torch.cat((hidden, embedded), dim=-1)
        logits: Tensor = self.proj(features)
        return logits.squeeze(-1)


class DraftedBlock(NamedTuple):
    """``tokens`` [B, N]; ``logits`` [B, N, V] that each token was picked from; ``embedded`` e [B, N, r]."""

    tokens: Tensor
    logits: Tensor
    embedded: Tensor | None


def greedy(logits: Tensor) -> Tensor:
    """[..., V] -> [...]: the likeliest token, the first of equals. (On a CPU argmax takes twice the time of max.)"""
    return logits.max(dim=-1).indices


def draft_tokens(
    head: MarkovHead | None,
    base: Tensor,
    hidden: Tensor,
    anchors: Tensor,
    pick: Callable[[Tensor], Tensor] = greedy,
) -> DraftedBlock:
    """Pick all N tokens of each block: one after another through the Markov head, at once without one.

    ``base`` [B, N, V] are the draft's logits on ``hidden`` [B, N, H], and are corrected in place; ``anchors`` [B].
    ``pick`` maps logits [..., V] to tokens [...].
    """
    if head is None:
        return DraftedBlock(pick(base), base, None)
    state, previous = head.initial_state(len(anchors)), anchors
    tokens: list[Tensor] = []
    embeddings: list[Tensor] = []
    for k in range(base.shape[1]):
        embeddings.append(head.embed(previous))
        correction, state = head.step(embeddings[-1], hidden[:, k], state)
        previous = pick(base[:, k].add_(correction))
        tokens.append(previous)
    return DraftedBlock(torch.stack(tokens, 1), base, torch.stack(embeddings, 1))


def probability_of(tokens: Tensor, logits: Tensor) -> Tensor:
    """The softmax probability of each token, float32 or better: tokens [...], logits [..., V] -> [...]."""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return wide.log_softmax(-1).gather(-1, tokens[..., None]).squeeze(-1).exp()

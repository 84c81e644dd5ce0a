"""The block drafter: one non-causal forward drafts N tokens from the target's hidden states.

One round: the context's keys and values come from the target's taps (``project_context``, written once when a
position is verified); the block's rows (anchor and masks) attend to the whole context and the whole block
(``forward``); ``predicting`` keeps the rows that make drafts; ``draft`` picks tokens and ``confidence`` rates them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from simtool.engine.models.heads import (
    ConfidenceHead,
    DraftedBlock,
    MarkovType,
    draft_tokens,
    greedy,
    markov_head,
    probability_of,
)
from simtool.engine.models.layers import Attend, DecoderLayer, RMSNorm, rotary
from simtool.engine.models.target import TargetModel


@dataclass(frozen=True)
class DraftConfig:
    """Sizes and habits of a block drafter.

    ``trained_drafts`` is the N it was trained for; a run may draft another N. ``tap_ids`` are target layers.
    ``samples_anchor_row``: row 0 predicts draft 1 (DeepSpec's formats); otherwise the anchor row is unused.
    ``own_embedding`` and ``own_head``: false means that the target's is used.
    """

    algorithm: Literal["dspark", "dflash"]
    trained_drafts: int
    samples_anchor_row: bool
    mask_token_id: int
    tap_ids: tuple[int, ...]
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    rope_theta: float
    eps: float
    max_positions: int
    attention_bias: bool = False
    own_embedding: bool = True
    own_head: bool = True
    markov_type: MarkovType | None = None
    markov_rank: int = 0
    confidence_head: bool = False
    confidence_with_markov: bool = False
    confidence_bias: bool = True

    def block_rows(self, drafts: int) -> int:
        """Rows of the draft forward per sequence for ``drafts`` tokens: N, or N + 1 with an unused anchor row."""
        return drafts if self.samples_anchor_row else drafts + 1


class DraftModel(nn.Module):
    """DSpark and DFlash in all their formats. Parameter names equal the checkpoint's."""

    def __init__(self, config: DraftConfig, target: TargetModel | None = None) -> None:
        """``target`` lends its embedding and head where the drafter has none of its own."""
        super().__init__()
        self.config = config
        c = config
        self.rotary = rotary(c.head_dim, c.rope_theta)
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size) if c.own_embedding else None
        self.lm_head = nn.Linear(c.hidden_size, c.vocab_size, bias=False) if c.own_head else None
        self.fc = nn.Linear(len(c.tap_ids) * c.hidden_size, c.hidden_size, bias=False)
        self.hidden_norm = RMSNorm(c.hidden_size, c.eps)
        self.layers = nn.ModuleList(
            DecoderLayer(
                c.hidden_size, c.intermediate_size, c.heads, c.kv_heads, c.head_dim,
                eps=c.eps, bias=c.attention_bias,
            )
            for _ in range(c.layers)
        )  # fmt: skip
        self.norm = RMSNorm(c.hidden_size, c.eps)
        self.markov_head = (
            markov_head(c.markov_type, c.vocab_size, c.markov_rank, c.hidden_size) if c.markov_type else None
        )
        self.confidence_head = (
            ConfidenceHead(c.hidden_size, c.markov_rank if c.confidence_with_markov else 0, bias=c.confidence_bias)
            if c.confidence_head
            else None
        )
        # a plain tuple hides the lent modules from this module's parameters, so nothing is saved or moved twice
        self._lent = (target,)

    def project_context(self, features: Tensor, positions: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of C verified positions for each layer of the drafter.

        ``features``: [C, taps * H] from the target; ``positions``: [C]. Returns per layer (k, v), each
        [C, kv_heads, head_dim], rotary applied.
        """
        context = self.hidden_norm(self.fc(features))
        tables = self.rotary(positions, context.dtype)
        return [layer.self_attn.keys_values(context, *tables) for layer in self._decoders()]

    def block(self, anchors: Tensor, starts: Tensor, drafts: int) -> tuple[Tensor, Tensor]:
        """Token ids and positions of the block rows, [B * rows] each: the anchor, then masks.

        ``anchors``: [B] token ids; ``starts``: [B] their positions.
        """
        rows = self.config.block_rows(drafts)
        tokens = anchors.new_full((len(anchors), rows), self.config.mask_token_id)
        tokens[:, 0] = anchors
        positions = starts[:, None] + torch.arange(rows, device=starts.device, dtype=starts.dtype)
        return tokens.reshape(-1), positions.reshape(-1)

    def forward(self, token_ids: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Block rows [R] at positions [R] -> hidden states after the final norm, [R, H].

        ``attend`` gets the block's own keys and values and must show every row the whole context of its
        sequence and the whole block, without a causal mask.
        """
        embed = self.embed_tokens if self.embed_tokens is not None else self._target().embed_tokens
        x: Tensor = embed(token_ids)
        tables = self.rotary(positions, x.dtype)
        for index, layer in enumerate(self._decoders()):
            x = layer(index, x, tables, attend)
        normed: Tensor = self.norm(x)
        return normed

    def predicting(self, hidden: Tensor, drafts: int) -> Tensor:
        """The rows that make drafts: [B * rows, H] -> [B, N, H]."""
        rows = self.config.block_rows(drafts)
        return hidden.view(-1, rows, hidden.shape[-1])[:, rows - drafts :]

    def logits(self, hidden: Tensor) -> Tensor:
        """Base logits, before any Markov correction: [..., H] -> [..., V]."""
        head = self.lm_head if self.lm_head is not None else self._target().lm_head
        scores: Tensor = head(hidden)
        return scores

    def draft(self, hidden: Tensor, anchors: Tensor, pick: Callable[[Tensor], Tensor] = greedy) -> DraftedBlock:
        """Tokens of B blocks from their predicting rows [B, N, H] and anchors [B]."""
        return draft_tokens(self.markov_head, self.logits(hidden), hidden, anchors, pick)

    def confidence_logits(self, hidden: Tensor, block: DraftedBlock) -> Tensor | None:
        """[B, N] before the sigmoid, one linear for all N; None where there is no head."""
        if self.confidence_head is None:
            return None
        embedded = block.embedded if self.config.confidence_with_markov else None
        logits: Tensor = self.confidence_head(hidden, embedded)
        return logits

    def confidence(self, hidden: Tensor, block: DraftedBlock) -> Tensor:
        """c [B, N] in 0..1: the head's sigmoid, or the probability of the drafted token where there is no head."""
        logits = self.confidence_logits(hidden, block)
        return probability_of(block.tokens, block.logits) if logits is None else logits.float().sigmoid()

    def _decoders(self) -> list[DecoderLayer]:
        return [layer for layer in self.layers if isinstance(layer, DecoderLayer)]

    def _target(self) -> TargetModel:
        (target,) = self._lent
        if target is None:
            raise ValueError("this drafter has no embedding or head of its own: build it with target=...")
        return target

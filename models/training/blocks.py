"""Many drafted blocks of many sequences in one forward: for training, and for judging every anchor at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from models.training.common import CausalBatch
from simtool.engine.draft import DraftModel
from simtool.engine.target import TargetModel


@dataclass(frozen=True)
class TargetView:
    """What a drafter may learn from the target on [B, S] tokens: taps [B*S, taps*H] and hidden [B, S, H]."""

    tokens: Tensor
    features: Tensor
    hidden: Tensor


@torch.no_grad()
def view_of(target: TargetModel, tokens: Tensor, taps: tuple[int, ...]) -> TargetView:
    """One causal forward of the target over [B, S] tokens."""
    batch, length = tokens.shape
    positions = torch.arange(length).repeat(batch)
    hidden, features = target(tokens.reshape(-1), positions, CausalBatch(length), taps)
    return TargetView(tokens, features, hidden.view(batch, length, -1))


@dataclass
class ManyBlocks:
    """An Attend for A blocks of R rows in each of B sequences: the context before the anchor, and the own block."""

    context: list[tuple[Tensor, Tensor]]
    mask: Tensor
    batch: int

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q, k, v: [B * A * R, heads, d]."""
        heads = q.shape[1]
        context_k, context_v = self.context[layer]
        q, k, v, context_k, context_v = (
            t.view(self.batch, -1, t.shape[1], t.shape[2]).transpose(1, 2) for t in (q, k, v, context_k, context_v)
        )
        k, v = torch.cat((context_k, k), dim=2), torch.cat((context_v, v), dim=2)
        k, v = (t.repeat_interleave(heads // t.shape[1], dim=1) for t in (k, v))
        out = functional.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)
        return out.transpose(1, 2).reshape(-1, heads, q.shape[-1])


def block_mask(starts: Tensor, length: int, rows: int) -> Tensor:
    """Anchors' positions [B, A] -> bool [B, 1, A*R, S + A*R], true where a row may look."""
    batch, anchors = starts.shape
    before = torch.arange(length) < starts[:, :, None]
    before = before[:, :, None, :].expand(batch, anchors, rows, length).reshape(batch, anchors * rows, length)
    own = torch.eye(anchors, dtype=torch.bool).repeat_interleave(rows, 0).repeat_interleave(rows, 1)
    return torch.cat((before, own.expand(batch, -1, -1)), dim=-1)[:, None]


def draft_hidden(draft: DraftModel, view: TargetView, starts: Tensor, drafts: int) -> Tensor:
    """Predicting rows of the blocks anchored at ``starts`` [B, A] -> [B*A, N, H]."""
    batch, length = view.tokens.shape
    anchors = view.tokens.gather(1, starts).reshape(-1)
    ids, positions = draft.block(anchors, starts.reshape(-1), drafts)
    context = draft.project_context(view.features, torch.arange(length).repeat(batch))
    mask = block_mask(starts, length, draft.config.block_rows(drafts))
    return draft.predicting(draft(ids, positions, ManyBlocks(context, mask, batch)), drafts)


def following(view: TargetView, starts: Tensor, drafts: int) -> tuple[Tensor, Tensor, Tensor]:
    """What comes after each anchor: tokens [B*A, N], prev tokens [B*A, N], target hidden behind them [B*A, N, H]."""
    offsets = starts[:, :, None] + torch.arange(drafts)
    flat = offsets.reshape(len(starts), -1)
    tokens = view.tokens.gather(1, flat + 1).view(-1, drafts)
    previous = view.tokens.gather(1, flat).view(-1, drafts)
    size = view.hidden.shape[-1]
    hidden = view.hidden.gather(1, flat[:, :, None].expand(-1, -1, size)).view(-1, drafts, size)
    return tokens, previous, hidden

"""Many drafted blocks of many sequences in one forward: for training, and for judging every anchor at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models.training.common import CausalBatch
from simtool.engine.models.draft import DraftModel
from simtool.engine.models.target import TargetModel


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


@dataclass(frozen=True)
class ViewStore:
    """Views of many sequences, computed once and kept in 16 bits: tokens, and what the target made of them."""

    tokens: Tensor
    features: Tensor
    hidden: Tensor

    @classmethod
    def of(cls, target: TargetModel, tokens: Tensor, taps: tuple[int, ...], chunk: int = 8) -> ViewStore:
        """One forward of the target over every sequence."""
        features: list[Tensor] = []
        hidden: list[Tensor] = []
        for part in torch.split(tokens, chunk):
            with torch.autocast("cpu", torch.bfloat16):
                view = view_of(target, part, taps)
            features.append(view.features.view(*part.shape, -1).half())
            hidden.append(view.hidden.half())
        return cls(tokens, torch.cat(features), torch.cat(hidden))

    def pick(self, rows: Tensor) -> TargetView:
        """The view of the chosen sequences, in float32."""
        return TargetView(self.tokens[rows], self.features[rows].flatten(0, 1).float(), self.hidden[rows].float())


@dataclass(frozen=True)
class ManyBlocks:
    """An Attend for A blocks of R rows in each of B sequences: the context before the anchor, and the own block.

    The two parts are scored apart: a dense mask over all rows of all blocks would spend most of its time on pairs
    that never meet. ``bias`` [B, 1, 1, A, 1, S] is 0 where a block may look and -inf elsewhere.
    """

    context: list[tuple[Tensor, Tensor]]
    bias: Tensor
    rows: int

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q, k, v: [B * A * R, heads, d]; below, G query heads share each of the K key heads."""
        batch, anchors, length = self.bias.shape[0], self.bias.shape[3], self.bias.shape[5]
        heads, kv, d = q.shape[1], k.shape[1], q.shape[2]
        groups, rows = heads // kv, self.rows
        context_k, context_v = (t.view(batch, length, kv, d).transpose(1, 2) for t in self.context[layer])
        k, v = (t.view(batch, anchors, rows, kv, d).transpose(2, 3) for t in (k, v))
        q = q.view(batch, anchors, rows, kv, groups, d) * d**-0.5
        seen = q.permute(0, 3, 4, 1, 2, 5).reshape(batch, kv, -1, d) @ context_k.transpose(-1, -2)
        seen = seen.view(batch, kv, groups, anchors, rows, length) + self.bias.to(q.dtype)
        own = q.permute(0, 1, 3, 4, 2, 5).reshape(batch, anchors, kv, -1, d) @ k.transpose(-1, -2)
        own = own.view(batch, anchors, kv, groups, rows, rows).permute(0, 2, 3, 1, 4, 5)
        weights = torch.cat((seen, own), dim=-1).softmax(-1).to(q.dtype)
        from_context = weights[..., :length].reshape(batch, kv, -1, length) @ context_v
        own = weights[..., length:].permute(0, 3, 1, 2, 4, 5).reshape(batch, anchors, kv, -1, rows)
        from_block = (own @ v).view(batch, anchors, kv, groups, rows, d).permute(0, 1, 4, 2, 3, 5)
        from_context = from_context.view(batch, kv, groups, anchors, rows, d).permute(0, 3, 4, 1, 2, 5)
        return (from_context + from_block).reshape(-1, heads, d)


def block_bias(starts: Tensor, length: int) -> Tensor:
    """Anchors' positions [B, A] -> [B, 1, 1, A, 1, S]: 0 before the anchor, -inf from it on."""
    hidden = torch.arange(length) >= starts[:, :, None]
    return torch.zeros(hidden.shape).masked_fill(hidden, -torch.inf)[:, None, None, :, None, :]


def draft_hidden(draft: DraftModel, view: TargetView, starts: Tensor, drafts: int) -> Tensor:
    """Predicting rows of the blocks anchored at ``starts`` [B, A] -> [B*A, N, H]."""
    batch, length = view.tokens.shape
    anchors = view.tokens.gather(1, starts).reshape(-1)
    ids, positions = draft.block(anchors, starts.reshape(-1), drafts)
    context = draft.project_context(view.features, torch.arange(length).repeat(batch))
    attend = ManyBlocks(context, block_bias(starts, length), draft.config.block_rows(drafts))
    return draft.predicting(draft(ids, positions, attend), drafts)


def following(view: TargetView, starts: Tensor, drafts: int) -> tuple[Tensor, Tensor, Tensor]:
    """What comes after each anchor: tokens [B*A, N], prev tokens [B*A, N], target hidden behind them [B*A, N, H]."""
    offsets = starts[:, :, None] + torch.arange(drafts)
    flat = offsets.reshape(len(starts), -1)
    tokens = view.tokens.gather(1, flat + 1).view(-1, drafts)
    previous = view.tokens.gather(1, flat).view(-1, drafts)
    size = view.hidden.shape[-1]
    hidden = view.hidden.gather(1, flat[:, :, None].expand(-1, -1, size)).view(-1, drafts, size)
    return tokens, previous, hidden

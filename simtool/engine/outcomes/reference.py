"""The simple truth: one sequence at a time, dense attention, greedy. Tests hold the paged engine against it.

Slow on purpose and short on purpose. The module code is the live engine's; only the attention given to it differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from simtool.engine.models.draft import DraftModel
from simtool.engine.models.target import TargetModel


def dense_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """q [T, heads, d] over k and v [S, kv_heads, d], mask [T, S] true where a row may look -> [T, heads, d]."""
    groups = q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(groups, dim=1).transpose(0, 1) for t in (k, v))
    return functional.scaled_dot_product_attention(q.transpose(0, 1), k, v, attn_mask=mask).transpose(0, 1)


@dataclass
class DenseSequence:
    """Keys and values of one sequence, [length, kv_heads, d] per layer, for the target; used as an Attend."""

    keys: dict[int, Tensor] = field(default_factory=dict)
    values: dict[int, Tensor] = field(default_factory=dict)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Append the new rows, then attend causally."""
        self.append(layer, k, v)
        length, new = len(self.keys[layer]), len(q)
        rows = torch.arange(length - new, length, device=q.device)
        mask = torch.arange(length, device=q.device)[None, :] <= rows[:, None]
        return dense_attention(q, self.keys[layer], self.values[layer], mask)

    def append(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Keep further rows of a layer."""
        held = layer in self.keys
        self.keys[layer] = torch.cat((self.keys[layer], k)) if held else k
        self.values[layer] = torch.cat((self.values[layer], v)) if held else v

    def truncate(self, length: int) -> None:
        """Forget rows from ``length`` on (rejected drafts)."""
        for layer in self.keys:
            self.keys[layer], self.values[layer] = self.keys[layer][:length], self.values[layer][:length]


@dataclass(frozen=True)
class BlockAttend:
    """The drafter's attention: every block row sees the whole context and the whole block."""

    context: DenseSequence

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The block's own rows are used and thrown away."""
        keys = torch.cat((self.context.keys[layer], k))
        return dense_attention(q, keys, torch.cat((self.context.values[layer], v)), None)


@dataclass(frozen=True)
class ReferenceStep:
    """One speculative round. ``start``: the anchor's position; ``confidence``: c per draft, 0..1.

    ``confidence_logits`` is None where there is no head. ``match_run`` counts the leading drafts that the target
    agrees with, ``accepted`` those that were also offered; ``next_token`` is the target's own token after them.
    """

    start: int
    draft: tuple[int, ...]
    confidence_logits: tuple[float, ...] | None
    confidence: tuple[float, ...]
    match_run: int
    accepted: int
    next_token: int


@torch.inference_mode()
def target_only(
    target: TargetModel, prompt: Sequence[int], max_tokens: int, stop: frozenset[int] = frozenset()
) -> list[int]:
    """Greedy tokens of the target alone; a token of ``stop`` ends the output and is part of it."""
    cache, output = DenseSequence(), list[int]()
    rows, position = list(prompt), 0
    while len(output) < max_tokens:
        hidden, _ = target(torch.tensor(rows), torch.arange(position, position + len(rows)), cache)
        position += len(rows)
        rows = [int(target.logits(hidden[-1]).argmax())]
        output += rows
        if rows[0] in stop:
            break
    return output


@torch.inference_mode()
def speculative(
    target: TargetModel,
    draft: DraftModel,
    prompt: Sequence[int],
    max_tokens: int,
    drafts: int,
    stop: frozenset[int] = frozenset(),
) -> tuple[list[int], list[ReferenceStep]]:
    """Greedy speculative decoding with ``drafts`` tokens a block, all offered.

    Returns the output, cut at ``max_tokens`` and after a token of ``stop``, and every round, the last one
    uncut. The output equals :func:`target_only`'s.
    """
    cache, context = DenseSequence(), DenseSequence()
    taps = draft.config.tap_ids
    positions = torch.arange(len(prompt))
    hidden, features = target(torch.tensor(list(prompt)), positions, cache, taps)
    _extend_context(draft, context, features, positions)
    output = [int(target.logits(hidden[-1]).argmax())]
    steps: list[ReferenceStep] = []
    while len(output) < max_tokens and stop.isdisjoint(output):
        start = len(prompt) + len(output) - 1
        block, logits, confidence = _draft_block(draft, context, output[-1], start, drafts)
        rows = torch.tensor([output[-1], *block])
        positions = torch.arange(start, start + len(rows))
        hidden, features = target(rows, positions, cache, taps)
        emitted: list[int] = target.logits(hidden).argmax(-1).tolist()
        run = next((k for k, token in enumerate(block) if token != emitted[k]), drafts)
        cache.truncate(start + run + 1)
        _extend_context(draft, context, features[: run + 1], positions[: run + 1])
        steps.append(
            ReferenceStep(
                start=start,
                draft=tuple(block),
                confidence_logits=logits,
                confidence=confidence,
                match_run=run,
                accepted=run,
                next_token=emitted[run],
            )
        )
        output += emitted[: run + 1]
    output = output[:max_tokens]
    ends = [index for index, token in enumerate(output) if token in stop]
    return output[: ends[0] + 1] if ends else output, steps


def _extend_context(draft: DraftModel, context: DenseSequence, features: Tensor, positions: Tensor) -> None:
    for layer, (keys, values) in enumerate(draft.project_context(features, positions)):
        context.append(layer, keys, values)


def _draft_block(
    draft: DraftModel, context: DenseSequence, anchor: int, start: int, drafts: int
) -> tuple[list[int], tuple[float, ...] | None, tuple[float, ...]]:
    anchors = torch.tensor([anchor])
    tokens, positions = draft.block(anchors, torch.tensor([start]), drafts)
    hidden = draft.predicting(draft(tokens, positions, BlockAttend(context)), drafts)
    block = draft.draft(hidden, anchors)
    logits = draft.confidence_logits(hidden, block)
    confidence = draft.confidence(hidden, block)[0].tolist()
    return block.tokens[0].tolist(), None if logits is None else tuple(logits[0].tolist()), tuple(confidence)

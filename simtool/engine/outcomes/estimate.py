"""What a teacher-forced pass will take, in time and memory, told before it starts.

Arithmetic is counted from the loaded models, and one product of their own size is timed on the device that they are on.
That leaves out attention and the overhead of small ops, so the time is a lower estimate where prompts are long.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from simtool.engine.models.draft import DraftModel
from simtool.engine.models.experts import Experts
from simtool.engine.models.target import TargetModel

#: Anchors whose blocks are drafted together.
ANCHORS_AT_ONCE = 64
_PROBE_ROWS = 256
_PROBES = 3


@dataclass(frozen=True)
class FillEstimate:
    """anchors: blocks to draft. seconds: of arithmetic. model_bytes: held for the whole pass. peak_bytes: what the
    longest request takes beside that.
    """

    requests: int
    anchors: int
    seconds: float
    model_bytes: int
    peak_bytes: int

    def __str__(self) -> str:
        took = f"{self.seconds / 60:.0f} min" if self.seconds > 90 else f"{math.ceil(self.seconds)} s"
        return (
            f"{self.requests} requests, {self.anchors} positions to draft from: about {took} or longer, "
            f"{_size(self.model_bytes)} of weights and up to {_size(self.peak_bytes)} beside them"
        )


def estimate(
    target: TargetModel, draft: DraftModel, drafts: int, lengths: Sequence[tuple[int, int]], per_s: float
) -> FillEstimate:
    """Estimate a pass over requests of (prompt, output) tokens; per_s: multiply-adds that the device does (`speed`)."""
    rows = draft.config.block_rows(drafts)
    anchors = sum(output for _, output in lengths)
    taps = sum(prompt + output for prompt, output in lengths)
    work = taps * products(target) + sum(output + drafts for _, output in lengths) * products(target.lm_head)
    work += anchors * rows * sum(products(layer) for layer in draft.layers)
    work += anchors * drafts * products(draft.lm_head if draft.lm_head is not None else target.lm_head)
    return FillEstimate(
        requests=len(lengths),
        anchors=anchors,
        seconds=work / per_s,
        model_bytes=_held(target) + _held(draft),
        peak_bytes=max((_beside(target, draft, drafts, *each) for each in lengths), default=0),
    )


def products(module: nn.Module) -> int:
    """Return the multiply-adds of one row through a module without its head: of experts, those that a row visits."""
    if isinstance(module, nn.Linear):
        return module.weight.numel()
    if isinstance(module, Experts):
        return products(module.gate) + module.per_token * products(module.experts[0])
    return sum(products(child) for name, child in module.named_children() if name != "lm_head")


def speed(weight: Tensor) -> float:
    """Return multiply-adds a second of a product with this weight [out, in], timed where it lies: the best of a few."""
    x = torch.ones(_PROBE_ROWS, weight.shape[1], dtype=weight.dtype, device=weight.device)
    best = math.inf
    for _ in range(_PROBES):
        start = time.perf_counter()
        float((x @ weight.t())[0, 0])  # reading one number waits for all of them
        best = min(best, time.perf_counter() - start)
    return _PROBE_ROWS * weight.numel() / max(best, 1e-9)


def _beside(target: TargetModel, draft: DraftModel, drafts: int, prompt: int, output: int) -> int:
    """Bytes of one request: keys and values, taps, logits of its output, and a chunk of blocks."""
    t, d, size = target.config, draft.config, target.embed_tokens.weight.element_size()
    length, rows = prompt + output, min(ANCHORS_AT_ONCE, output) * draft.config.block_rows(drafts)
    kept = length * 2 * (t.layers * t.kv_heads * t.head_dim + d.layers * d.kv_heads * d.head_dim)
    kept += length * len(d.tap_ids) * t.hidden_size
    passing = output * t.vocab_size * 2 + rows * d.vocab_size * 3 + rows * (length + rows) * d.heads
    return size * (kept + passing + t.heads * length * length)


def _held(model: nn.Module) -> int:
    return sum(each.numel() * each.element_size() for each in model.parameters())


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{math.ceil(count / (1 << 20))} MiB"

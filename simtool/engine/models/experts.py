"""The mixture of experts in a Qwen3-MoE layer: a router picks a few SwiGLUs for each row, and weighs what they give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from simtool.engine.models.layers import MLP


@dataclass(frozen=True)
class ExpertSizes:
    """experts: how many. per_token: how many of them a row runs through. intermediate: width of one.

    normed: whether the weights of a row's experts are made to sum to 1. dense_layers: layers without experts.
    """

    experts: int
    per_token: int
    intermediate: int
    normed: bool
    dense_layers: frozenset[int] = frozenset()


class Experts(nn.Module):
    """Router and experts. Parameter names equal the checkpoint's: `gate`, `experts.0.gate_proj` and so on."""

    def __init__(self, hidden: int, sizes: ExpertSizes) -> None:
        super().__init__()
        self.per_token, self.normed = sizes.per_token, sizes.normed
        self.gate = nn.Linear(hidden, sizes.experts, bias=False)
        self.experts = nn.ModuleList(MLP(hidden, sizes.intermediate) for _ in range(sizes.experts))

    def forward(self, x: Tensor) -> Tensor:
        """[T, H] -> [T, H]."""
        return self.add_to(torch.zeros_like(x), x)

    def add_to(self, total: Tensor, x: Tensor) -> Tensor:
        """Add `forward` of x [T, H] to total [T, H], in place: expert after expert, by id."""
        weights, chosen = self.route(x)
        for expert, rows, places in _visited(chosen):
            given = self.experts[expert](x.index_select(0, rows)) * weights[rows, places, None]
            total.index_add_(0, rows, given)
        return total

    def route(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x [T, H] -> weights and ids of each row's experts, [T, per_token] each; reckoned in float32 or better."""
        scores = self.gate(x)
        scores = (scores if scores.dtype == torch.float64 else scores.float()).softmax(-1)
        weights, chosen = scores.topk(self.per_token, dim=-1)
        if self.normed:
            weights = weights / weights.sum(-1, keepdim=True)
        return weights.to(x.dtype), chosen


def _visited(chosen: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield each expert that some row runs through, with those rows and the places at which they name it.

    Which ones they are must be read back where the router runs on a device of its own: one wait a layer.
    """
    per_token = chosen.shape[1]
    order = chosen.flatten().argsort(stable=True)
    counts: list[int] = chosen.flatten().bincount().tolist()
    first = 0
    for expert, count in enumerate(counts):
        if count:
            pairs = order[first : first + count]
            yield expert, pairs // per_token, pairs % per_token
            first += count

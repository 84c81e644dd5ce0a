"""The target: a Qwen3 or Qwen3-MoE decoder whose attention the caller supplies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from simtool.engine.models.experts import Experts, ExpertSizes
from simtool.engine.models.layers import Attend, DecoderLayer, RMSNorm, rotary


@dataclass(frozen=True)
class TargetConfig:
    """Sizes of a Qwen3 target. ``max_positions`` bounds prompt + output, in tokens. experts: None: it is dense."""

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
    tied_embeddings: bool
    attention_bias: bool = False
    eos_token_ids: tuple[int, ...] = ()
    experts: ExpertSizes | None = None

    def has_experts(self, layer: int) -> bool:
        """Whether a layer mixes experts in place of one SwiGLU."""
        return self.experts is not None and layer not in self.experts.dense_layers


class TargetModel(nn.Module):
    """Qwen3: embed, decoder layers, final norm, head. Parameter names equal the checkpoint's without ``model.``."""

    def __init__(self, config: TargetConfig) -> None:
        super().__init__()
        self.config = config
        self.rotary = rotary(config.head_dim, config.rope_theta)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            DecoderLayer(
                config.hidden_size, config.intermediate_size, config.heads, config.kv_heads, config.head_dim,
                eps=config.eps, bias=config.attention_bias,
            )
            for _ in range(config.layers)
        )  # fmt: skip
        for index, layer in enumerate(self.layers):
            if config.experts is not None and config.has_experts(index):
                layer.mlp = Experts(config.hidden_size, config.experts)
        self.norm = RMSNorm(config.hidden_size, config.eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tied_embeddings:
            self.lm_head.weight = self.embed_tokens.weight

    def forward(
        self, token_ids: Tensor, positions: Tensor, attend: Attend, taps: Sequence[int] = ()
    ) -> tuple[Tensor, Tensor]:
        """Run T tokens through every layer.

        ``token_ids`` and ``positions``: [T] integers. ``taps``: ids of the layers whose output the drafter
        reads, in the drafter's order. Returns the hidden states after the final norm, [T, H], and the taps
        side by side, [T, len(taps) * H] (no columns without taps).
        """
        x = self.embed_tokens(token_ids)
        tables = self.rotary(positions, x.dtype)
        tapped: dict[int, Tensor] = {}
        for index, layer in enumerate(self.layers):
            x = layer(index, x, tables, attend)
            if index in taps:
                tapped[index] = x
        features = torch.cat([tapped[tap] for tap in taps], dim=-1) if taps else x[:, :0]
        return self.norm(x), features

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., H] (after the final norm) -> [..., V]."""
        scores: Tensor = self.lm_head(hidden)
        return scores

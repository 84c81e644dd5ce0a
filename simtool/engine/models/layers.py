"""The layers that target and drafter share: plain torch, no attention kernel of their own.

Attention is *given* by the caller (see :class:`Attend`), so that training (dense and causal), the dense
reference and the live engine (paged keys and values) run the same module code. Tokens are always flattened:
T counts tokens of any number of sequences, and only the caller knows which token belongs to which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attend(Protocol):
    """What a caller supplies to a forward: attention over whatever keys it keeps.

    ``q`` is [T, heads, head_dim]; ``k`` and ``v`` are [T, kv_heads, head_dim], the new rows of this forward
    (rotary already applied to q and k). The callable may store k and v first. Returns [T, heads, head_dim].
    """

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, /) -> Tensor:
        """Attend for layer ``layer`` (0-based)."""
        ...


class Rotary(Protocol):
    """What gives a model the rotary angles of its rows."""

    def __call__(self, positions: Tensor, dtype: torch.dtype, /) -> tuple[Tensor, Tensor]:
        """cos and sin for positions [T], as `rotary_tables` gives them."""
        ...


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last dimension, computed in float32 or better."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., size] -> [..., size], in the dtype of x."""
        wide = x if x.dtype == torch.float64 else x.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * normed.to(x.dtype)


def rotary(head_dim: int, theta: float) -> Rotary:
    """Angles computed for every forward anew, on any device."""
    return lambda positions, dtype: rotary_tables(positions, head_dim, theta, dtype)


def rotary_tables(positions: Tensor, head_dim: int, theta: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin of the rotary angles, [T, 1, head_dim] each, for positions [T] (0-based, any integer dtype).

    Angles are taken in float32, as the public models do, and cast at the end.
    """
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32, device=positions.device) / head_dim
    angles = positions.to(torch.float32)[:, None] * (1.0 / theta**exponents)
    angles = torch.cat((angles, angles), dim=-1)[:, None, :]
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding by halves: x [T, heads, head_dim], cos and sin [T, 1, head_dim]."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    """Projections around an attention that the caller gives; RMSNorm per head on q and k before rotary."""

    def __init__(self, hidden: int, heads: int, kv_heads: int, head_dim: int, *, eps: float, bias: bool) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.rotate: Callable[[Tensor, Tensor, Tensor], Tensor] = rotate
        self.q_proj = nn.Linear(hidden, heads * head_dim, bias=bias)
        self.k_proj = nn.Linear(hidden, kv_heads * head_dim, bias=bias)
        self.v_proj = nn.Linear(hidden, kv_heads * head_dim, bias=bias)
        self.o_proj = nn.Linear(heads * head_dim, hidden, bias=bias)
        self.q_norm = RMSNorm(head_dim, eps)
        self.k_norm = RMSNorm(head_dim, eps)

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[T, H] -> rotated queries [T, heads, head_dim], and what `keys_values` gives."""
        queries = self.rotate(self.q_norm(self.q_proj(x).view(-1, self.heads, self.head_dim)), cos, sin)
        return queries, *self.keys_values(x, cos, sin)

    def keys_values(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """[T, H] -> rotated keys and plain values, [T, kv_heads, head_dim] each."""
        keys = self.rotate(self.k_norm(self.k_proj(x).view(-1, self.kv_heads, self.head_dim)), cos, sin)
        return keys, self.v_proj(x).view(-1, self.kv_heads, self.head_dim)

    def output(self, attended: Tensor) -> Tensor:
        """[T, heads, head_dim] -> [T, H]."""
        projected: Tensor = self.o_proj(attended.reshape(-1, self.heads * self.head_dim))
        return projected


class MLP(nn.Module):
    """SwiGLU: down(silu(gate(x)) * up(x)), [T, H] -> [T, H]."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[T, H] -> [T, H]."""
        projected: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return projected


class DecoderLayer(nn.Module):
    """Pre-norm block: attention, then SwiGLU, each with a residual. The target and the drafters both use it."""

    def __init__(
        self, hidden: int, intermediate: int, heads: int, kv_heads: int, head_dim: int, *, eps: float, bias: bool
    ) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(hidden, eps)
        self.self_attn = Attention(hidden, heads, kv_heads, head_dim, eps=eps, bias=bias)
        self.post_attention_layernorm = RMSNorm(hidden, eps)
        self.mlp: nn.Module = MLP(hidden, intermediate)

    def forward(self, index: int, x: Tensor, tables: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        """[T, H] -> [T, H]. ``index`` is this layer's place in its model; ``tables`` are cos and sin."""
        projected = self.self_attn.project(self.input_layernorm(x), *tables)
        x = x + self.self_attn.output(attend(index, *projected))
        mixed: Tensor = self.mlp(self.post_attention_layernorm(x))
        return x + mixed

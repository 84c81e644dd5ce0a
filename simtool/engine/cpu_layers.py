"""The layers as one CPU thread runs them fastest: fewer ops, and weights laid out as the matrix product reads them.

At a decode step's sizes dispatch costs as much as arithmetic, and a product with weights stored [in, out] takes about
two thirds of the time that [out, in] takes. Modules, their names and the shapes of their weights stay.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from simtool.engine.layers import Attention, RMSNorm


class FastRMSNorm(RMSNorm):
    """RMSNorm from the vector norm, which reads its input once."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., size] -> [..., size], in the dtype of x."""
        return scaled_norm(x, self.weight, self.eps)


class FusedAttention(Attention):
    """Queries, keys and values from one product; queries and keys are normed and rotated together."""

    def __init__(self, plain: Attention) -> None:
        """Takes over the loaded weights of `plain`."""
        nn.Module.__init__(self)
        self.heads, self.kv_heads, self.head_dim = plain.heads, plain.kv_heads, plain.head_dim
        self.rotate, self.o_proj, self._eps = rotate_halves, plain.o_proj, plain.q_norm.eps
        parts = (plain.q_proj, plain.k_proj, plain.v_proj)
        weights: list[Tensor] = [part.weight for part in parts]
        self._weight = _in_by_out(torch.cat(weights))
        biases: list[Tensor] = [part.bias for part in parts if part.bias is not None]
        self._bias = torch.cat(biases) if biases else None
        scales = ((plain.q_norm, self.heads), (plain.k_norm, self.kv_heads))
        self._scale = torch.cat([norm.weight.expand(count, -1) for norm, count in scales])

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As in `Attention`."""
        turned, values = self._project(x, 0, cos, sin)
        return turned[:, : self.heads], turned[:, self.heads :], values

    def keys_values(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """As in `Attention`."""
        return self._project(x, self.heads, cos, sin)

    def _project(self, x: Tensor, first: int, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Heads from the `first` on: those that are normed and rotated, and the values."""
        start = first * self.head_dim
        bias = None if self._bias is None else self._bias[start:]
        rows = functional.linear(x, self._weight[start:], bias).view(len(x), -1, self.head_dim)
        turning, values = rows[:, : -self.kv_heads], rows[:, -self.kv_heads :]
        return self.rotate(scaled_norm(turning, self._scale[first:], self._eps), cos, sin), values


def rotate_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """As `layers.rotate`, without putting the halves together in a new tensor first."""
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    turned = x * cos
    turned[..., :half].addcmul_(second, sin[..., :half], value=-1)
    turned[..., half:].addcmul_(first, sin[..., half:])
    return turned


def scaled_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMSNorm over the last dimension, computed in float32 or better, times a weight that broadcasts over x."""
    wide = x if x.dtype == torch.float64 else x.float()
    square = torch.linalg.vector_norm(wide, dim=-1, keepdim=True).square_()
    normed: Tensor = wide * square.div_(x.shape[-1]).add_(eps).rsqrt_()
    return normed.to(x.dtype).mul_(weight)


def fuse(model: nn.Module) -> None:
    """Let a loaded model use these layers. A head that is tied to the embedding gets weights of its own."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is RMSNorm:
                setattr(parent, name, _fast(child))
            elif type(child) is Attention:
                setattr(parent, name, FusedAttention(child))
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight = nn.Parameter(_in_by_out(module.weight), requires_grad=False)


def _fast(norm: RMSNorm) -> FastRMSNorm:
    fast = FastRMSNorm(norm.weight.shape[0], norm.eps)
    fast.weight = norm.weight
    return fast


def _in_by_out(weight: Tensor) -> Tensor:
    """The same [out, in] matrix, stored column by column."""
    return weight.t().contiguous().t()

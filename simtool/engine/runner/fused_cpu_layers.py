"""The layers as one CPU thread runs them fastest: fewer ops, and weights laid out as the matrix product reads them.

At a decode step's sizes dispatch costs as much as arithmetic: a call from Python to a torch op takes some microseconds,
and what an op writes to new memory pushes weights out of the cache. Hence products straight on [in, out] weights,
residuals added by the product itself, and results written over what is read no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from simtool.engine.models.draft import DraftModel
from simtool.engine.models.experts import Experts
from simtool.engine.models.layers import MLP, Attend, Attention, DecoderLayer, RMSNorm, rotary_tables
from simtool.engine.models.target import TargetModel


class FusedLinear(nn.Linear):
    """A Linear without the transposed views that `functional.linear` makes of its weight in every call."""

    def __init__(self, plain: nn.Linear) -> None:
        """Takes over the loaded weight of `plain`, stored anew."""
        nn.Module.__init__(self)
        self.in_features, self.out_features = plain.in_features, plain.out_features
        self.weight = nn.Parameter(_in_by_out(plain.weight), requires_grad=False)
        self.bias = plain.bias
        self.product = self.weight.detach().t()

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        rows = x if x.dim() == 2 else x.reshape(-1, self.in_features)
        out = _product(rows, self.product, self.bias)
        return out if x.dim() == 2 else out.view(*x.shape[:-1], self.out_features)


class FusedEmbedding(nn.Embedding):
    """Rows of a table, straight from the op that gathers them."""

    def __init__(self, plain: nn.Embedding) -> None:
        """Takes over the loaded weight of `plain`."""
        nn.Module.__init__(self)
        self.weight = plain.weight

    def forward(self, ids: Tensor) -> Tensor:
        """[T] -> [T, size]."""
        return self.weight.index_select(0, ids)


class RotaryCache:
    """Rotary angles of every position, computed once and looked up."""

    def __init__(self, positions: int, head_dim: int, theta: float, dtype: torch.dtype) -> None:
        cos, sin = rotary_tables(torch.arange(positions), head_dim, theta, dtype)
        self._both, self._sizes = torch.cat((cos, sin), -1), (head_dim, head_dim)

    def __call__(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """As `layers.Rotary`, in the dtype that the cache was made for."""
        cos, sin = self._both.index_select(0, positions).split_with_sizes(self._sizes, -1)
        return cos, sin


class FusedRMSNorm(RMSNorm):
    """RMSNorm from the vector norm, which reads its input once."""

    def __init__(self, plain: RMSNorm) -> None:
        """Takes over the loaded weight of `plain`."""
        nn.Module.__init__(self)
        self.weight, self.eps = plain.weight, plain.eps
        self.scale = Scale(plain.weight.detach(), plain.eps)

    def forward(self, x: Tensor) -> Tensor:
        """[..., size] -> [..., size], in the dtype of x."""
        return self.scale(x)


class Scale:
    """RMSNorm over the last dimension, in float32 or better, times a weight that broadcasts over x."""

    def __init__(self, weight: Tensor, eps: float) -> None:
        self.weight = weight
        self._dtype = weight.dtype if weight.dtype == torch.float64 else torch.float32
        self._eps = torch.tensor(eps, dtype=self._dtype)  # a tensor, as every Python number is made one in every call
        self._share = 1.0 / weight.shape[-1]

    def __call__(self, x: Tensor) -> Tensor:
        """[..., size] -> [..., size], in the dtype of x."""
        wide = x if x.dtype == self._dtype else x.to(self._dtype)
        norm = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
        normed = wide * torch.addcmul(self._eps, norm, norm, value=self._share).rsqrt_()
        return (normed if x.dtype == self._dtype else normed.to(x.dtype)).mul_(self.weight)


class FusedAttention(Attention):
    """Queries, keys and values from one product; queries and keys are normed and rotated together."""

    def __init__(self, plain: Attention) -> None:
        """Takes over the loaded weights of `plain`."""
        nn.Module.__init__(self)
        self.heads, self.kv_heads, self.head_dim = plain.heads, plain.kv_heads, plain.head_dim
        self.o_proj = FusedLinear(plain.o_proj)
        parts = (plain.q_proj, plain.k_proj, plain.v_proj)
        product = torch.cat([part.weight.detach() for part in parts]).t().contiguous()
        bias = torch.cat([part.bias.detach() for part in parts]) if plain.q_proj.bias is not None else None
        norms = (plain.q_norm.weight.expand(self.heads, -1), plain.k_norm.weight.expand(self.kv_heads, -1))
        scales, eps, after = torch.cat(norms).detach(), plain.q_norm.eps, self.heads * self.head_dim
        self._all = _Projection(product, bias, Scale(scales, eps), self.kv_heads)
        bias = None if bias is None else bias[after:]
        self._keys_values = _Projection(product[:, after:], bias, Scale(scales[self.heads :], eps), self.kv_heads)

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As in `Attention`."""
        turned, values = self._all(x, cos, sin)
        queries, keys = turned.split_with_sizes((self.heads, self.kv_heads), 1)
        return queries, keys, values

    def keys_values(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """As in `Attention`."""
        return self._keys_values(x, cos, sin)

    def output_on(self, x: Tensor, attended: Tensor) -> Tensor:
        """Return x [T, H] plus `output` of attended [T, heads, head_dim], as a new tensor."""
        out = self.o_proj
        assert isinstance(out, FusedLinear)
        return torch.addmm(x if out.bias is None else x + out.bias, attended.reshape(len(x), -1), out.product)


class _Projection:
    """One product to heads, of which all but the last `plain_heads` are normed and rotated."""

    def __init__(self, product: Tensor, bias: Tensor | None, scale: Scale, plain_heads: int) -> None:
        """product: [in, out]; `scale` has a weight for each of the heads that it norms."""
        self._product, self._bias, self._scale = product, bias, scale
        turned, self._size = scale.weight.shape
        self._heads = (turned, plain_heads)

    def __call__(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """[T, H] -> turned [T, turned heads, head_dim] and plain [T, plain heads, head_dim]."""
        heads = _product(x, self._product, self._bias).view(len(x), -1, self._size)
        turning, values = heads.split_with_sizes(self._heads, 1)
        return rotate_halves(self._scale(turning), cos, sin), values


class FusedMLP(MLP):
    """SwiGLU whose gate is computed in place, and whose last product adds to what is there."""

    def __init__(self, plain: MLP) -> None:
        """Takes over the loaded weights of `plain`."""
        nn.Module.__init__(self)
        parts = [FusedLinear(part) for part in (plain.gate_proj, plain.up_proj, plain.down_proj)]
        self.gate_proj, self.up_proj, self.down_proj = parts
        self._products = [part.product for part in parts]

    def add_to(self, total: Tensor, x: Tensor) -> Tensor:
        """Add `forward` of x [T, H] to total [T, H], in place."""
        gate, up, down = self._products
        return total.addmm_(functional.silu(x.mm(gate), inplace=True).mul_(x.mm(up)), down)


class FusedExperts(Experts):
    """Experts whose products read weights as laid out here."""

    def __init__(self, plain: Experts) -> None:
        """Takes over the loaded weights of `plain`."""
        nn.Module.__init__(self)
        self.per_token, self.normed = plain.per_token, plain.normed
        self.gate, self.experts = FusedLinear(plain.gate), nn.ModuleList()
        for place, expert in enumerate(plain.experts):
            assert isinstance(expert, MLP), "experts are SwiGLUs"
            self.experts.append(FusedMLP(expert))
            plain.experts[place] = nn.Identity()  # one at a time, so that what is replaced can go


class FusedLayer(DecoderLayer):
    """A decoder layer whose products add the residual themselves."""

    def __init__(self, plain: DecoderLayer) -> None:
        """Takes over the loaded weights of `plain`."""
        nn.Module.__init__(self)
        self.input_layernorm = FusedRMSNorm(plain.input_layernorm)
        self.self_attn = FusedAttention(plain.self_attn)
        self.post_attention_layernorm = FusedRMSNorm(plain.post_attention_layernorm)
        mixer = _mixer(plain.mlp)
        self.mlp = mixer
        # called by their own names: a module's call costs as much as a small op
        self._before, self._after = self.input_layernorm.scale, self.post_attention_layernorm.scale
        self._project, self._output_on, self._mix = self.self_attn.project, self.self_attn.output_on, mixer.add_to

    def forward(self, index: int, x: Tensor, tables: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        """As in `DecoderLayer`."""
        attended = attend(index, *self._project(self._before(x), *tables))
        total = self._output_on(x, attended)  # x may be a tap: the sum is a new tensor, and that one is ours to add to
        return self._mix(total, self._after(total))


def _mixer(plain: nn.Module) -> FusedMLP | FusedExperts:
    """What mixes a row's features behind attention."""
    if isinstance(plain, Experts):
        return FusedExperts(plain)
    assert isinstance(plain, MLP), "a layer mixes by one SwiGLU or by experts"
    return FusedMLP(plain)


def rotate_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """As `layers.rotate`, without putting the halves together in a new tensor first."""
    half = x.shape[-1] // 2
    sizes, sin = (half, half), sin[..., :half]  # both halves of the table are the same
    turned = x * cos
    first, second = x.split_with_sizes(sizes, -1)
    turned_first, turned_second = turned.split_with_sizes(sizes, -1)
    turned_first.addcmul_(second, sin, value=-1)
    turned_second.addcmul_(first, sin)
    return turned


def fuse(model: nn.Module, positions: int | None = None) -> None:
    """Let a loaded model use these layers. A head that is tied to the embedding gets weights of its own.

    positions: how many will be asked for at most; None: as many as the model has.
    """
    for name in [name for name, _ in model.named_children()]:
        child = model.get_submodule(name)  # one at a time, so that what is replaced can go
        fused = _FUSED.get(type(child))
        if fused is None:
            fuse(child)
        else:
            setattr(model, name, fused(child))
    if isinstance(model, TargetModel | DraftModel):
        c = model.config
        rows = c.max_positions if positions is None else min(positions, c.max_positions)
        model.rotary = RotaryCache(rows, c.head_dim, c.rope_theta, next(model.parameters()).dtype)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x [T, in] times weight [in, out], plus bias."""
    return x.mm(weight) if bias is None else torch.addmm(bias, x, weight)


def _in_by_out(weight: Tensor) -> Tensor:
    """The same [out, in] matrix, stored column by column."""
    return weight.detach().t().contiguous().t()


_FUSED: Mapping[type[nn.Module], Callable[[Any], nn.Module]] = {
    DecoderLayer: FusedLayer,
    RMSNorm: FusedRMSNorm,
    nn.Linear: FusedLinear,
    nn.Embedding: FusedEmbedding,
}

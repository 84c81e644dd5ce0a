"""Plain CPU kernels under the wheel's own schemas: what each op means, and what its documentation does not allow.

They are slow and strict on purpose. A call that the documentation rules out fails here, as it would on the device, or
worse, where it would not fail on the device but go wrong (an index written twice, a table that is too short).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

LIBRARY = torch.library.Library("npu", "IMPL")


def register() -> None:
    """Register the kernels for CPU tensors."""
    for name, kernel in KERNELS.items():
        LIBRARY.impl(name, kernel, "CPU")


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    actual_seq_lengths: list[int] | None = None,
    actual_seq_lengths_kv: list[int] | None = None,
    block_table: Tensor | None = None,
    num_heads: int = 1,
    scale: float = 1.0,
    input_layout: str = "BSH",
    num_key_value_heads: int = 0,
    sparse_mode: int = 0,
    block_size: int = 0,
    **others: object,
) -> tuple[Tensor, Tensor]:
    """Paged attention without a mask: every row of sequence b sees the first lengths[b] keys behind its table.

    BSH: sequences of equal width. TND: rows one after another, actual_seq_lengths where each sequence ends.
    """
    passed = {name: other for name, other in others.items() if other is not None and other not in _DEFAULTS}
    assert not passed, f"the engine's table does not list {sorted(passed)}"
    assert sparse_mode == 0
    assert input_layout in ("BSH", "TND")
    assert block_table is not None
    assert actual_seq_lengths_kv is not None
    assert all(type(length) is int for length in actual_seq_lengths_kv), "lengths must be in a host list"
    assert all(x.is_contiguous() for x in (query, key, value, block_table))
    if input_layout == "TND":
        assert query.shape[1] == num_heads
        ends = actual_seq_lengths
        assert ends is not None, "TND needs the end of each sequence"
        assert ends == sorted(ends)
        assert ends[-1] == len(query)
    else:
        assert actual_seq_lengths is None
        ends = [query.shape[1] * (b + 1) for b in range(len(query))]
    size = query.shape[2] if input_layout == "TND" else query.shape[2] // num_heads
    rows = query.view(-1, num_heads, size)
    assert block_table.dtype == torch.int32
    assert block_table.shape[0] == len(actual_seq_lengths_kv) == len(ends)
    assert key.shape == value.shape == (key.shape[0], block_size, num_key_value_heads * size)
    assert size % 16 == 0
    assert block_size <= 512
    assert block_size % (16 if len(rows) == len(ends) else 128) == 0
    out = torch.empty_like(rows)
    starts = [0, *ends[:-1]]
    for b, (start, end, length) in enumerate(zip(starts, ends, actual_seq_lengths_kv, strict=True)):
        needed = math.ceil(length / block_size)
        assert 1 <= needed <= block_table.shape[1], "the table is shorter than the keys that are asked for"
        blocks = block_table[b, :needed].long()
        assert (blocks >= 0).all()
        assert (blocks < len(key)).all()
        k, v = (x[blocks].view(-1, num_key_value_heads, size)[:length] for x in (key, value))
        k, v = (x.repeat_interleave(num_heads // num_key_value_heads, 1) for x in (k, v))
        scores = torch.einsum("shd,thd->hst", rows[start:end], k) * scale
        out[start:end] = torch.einsum("hst,thd->shd", scores.softmax(-1), v)
    return out.view_as(query), query.new_zeros(1, dtype=torch.float32)


def scatter(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    *,
    compress_lens: Tensor | None = None,
    compress_seq_offsets: Tensor | None = None,
    seq_lens: Tensor | None = None,
    cache_mode: str | None = "PA_NZ",
) -> None:
    """[T, heads, size] into [blocks, block_size, heads, size]."""
    assert cache_mode == "Norm"
    assert (compress_lens, compress_seq_offsets, seq_lens) == (None, None, None)
    assert slot_mapping.dtype in (torch.int32, torch.int64)
    assert len(slot_mapping.unique()) == len(slot_mapping), "an index is written twice"
    for new, cache in ((key, key_cache), (value, value_cache)):
        assert new.is_contiguous()
        assert cache.is_contiguous()
        assert new.shape[1:] == cache.shape[2:]
        assert new.dtype == cache.dtype
        cache.flatten(0, 1)[slot_mapping.long()] = new


def rms_norm(input: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """Return y and the reciprocal of the root mean square."""
    assert input.dtype == gamma.dtype
    wide = input if input.dtype == torch.float64 else input.float()
    reciprocal = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    return (wide * reciprocal * gamma).to(input.dtype), reciprocal


def rotary_mul(
    input: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half", rotate: Tensor | None = None
) -> Tensor:
    """BSND by halves, r1 and r2 [1, S, 1, D]."""
    assert rotary_mode == "half"
    assert rotate is None
    _, rows, heads, size = input.shape
    assert r1.shape == r2.shape == (1, rows, 1, size)
    assert heads < 1000
    assert size < 896
    assert size % 2 == 0
    first, second = input.chunk(2, -1)
    return input * r1 + torch.cat((-second, first), -1) * r2


#: Values of arguments that are not passed, as the schema fills them in.
_DEFAULTS = (0, 1.0, 2147483647, False)
KERNELS = {
    "npu_fused_infer_attention_score": attention,
    "npu_scatter_pa_kv_cache": scatter,
    "npu_rms_norm": rms_norm,
    "npu_rotary_mul": rotary_mul,
}

"""Attention on an NPU: paged, with block tables on the device and lengths in host lists.

Every call is G sequences of w rows: a validate row is a sequence of one query (w = 1), a draft block is w rows
without a mask, which all see the whole context and the whole block. `RunnerSpec.npu_layout` says in which layout.
BSH [G, w, heads x size] is the default: both batches are rectangular, and the wheel's documentation allows it with
pages for every head size in 16s. TND is [G x w, heads, size] with the running ends of the sequences: vLLM-Ascend runs
it with pages in production, and the same documentation excludes that.
"""

from __future__ import annotations

import torch
from torch import Tensor

from simtool.engine.models.layers import Attend
from simtool.engine.runner.kv_cache import KVCache
from simtool.engine.runner.npu import ops as npu_ops
from simtool.engine.runner.rows import BatchRows
from simtool.engine.runner.spec import NpuLayout, RunnerSpec
from simtool.errors import UsageError

_KERNEL_DTYPES = ("float16", "bfloat16")
_HEAD_MULTIPLE = 16
_PAGE_MULTIPLE = 16
_LARGEST_PAGE = 512


class NpuAttention:
    """Writes each new row at its place in the cache, then attends. `lengths`: one for each sequence, on the host."""

    def __init__(self, cache: KVCache, rows: BatchRows, lengths: list[int], layout: NpuLayout) -> None:
        self._cache, self._mapping, self._width, self._layout = cache, rows.mapping, rows.width, layout
        self._tables = rows.tables.to(torch.int32).contiguous()
        self._lengths = lengths

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, /) -> Tensor:
        """Attend; shapes as in `layers.Attend`."""
        keys, values = self._cache.pages(layer)
        write_pages(self._cache, layer, self._mapping, k, v)
        _, heads, size = q.shape
        query, ends = q.reshape(-1, self._width, heads * size), None
        if self._layout == "TND":
            query, ends = q.contiguous(), list(range(self._width, len(q) + 1, self._width))
        attended, _ = npu_ops.op("npu_fused_infer_attention_score")(
            query,
            keys.flatten(2),
            values.flatten(2),
            actual_seq_lengths=ends,
            actual_seq_lengths_kv=self._lengths,
            block_table=self._tables,
            num_heads=heads,
            num_key_value_heads=k.shape[1],
            scale=size**-0.5,
            input_layout=self._layout,
            sparse_mode=0,
            block_size=self._cache.block_size,
        )
        out: Tensor = attended.reshape(-1, heads, size)
        return out


class NpuKernels:
    """The NPU's attention for a Runner. Contexts of the drafter are split into pages that the op can take."""

    #: With more than one query a page must be a multiple of this.
    context_block = 128

    def __init__(self, layout: NpuLayout = "BSH") -> None:
        self._layout = layout

    def rows(self, cache: KVCache, rows: BatchRows) -> Attend:
        """Attention of validate rows."""
        return NpuAttention(cache, rows, rows.host_lengths.tolist(), self._layout)

    def sequences(self, cache: KVCache, rows: BatchRows, longest: int) -> Attend:
        """Attention of sequences whose rows see the same keys; `longest` adds nothing to lengths on the host."""
        return NpuAttention(cache, rows, rows.host_lengths.tolist(), self._layout)


def write_pages(cache: KVCache, layer: int, mapping: Tensor, keys: Tensor, values: Tensor) -> None:
    """Store new keys and values, through the scatter op where the wheel has it."""
    if not npu_ops.has("npu_scatter_pa_kv_cache"):
        cache.write(layer, mapping, keys, values)
        return
    pages = cache.pages(layer)
    npu_ops.op("npu_scatter_pa_kv_cache")(keys.contiguous(), values.contiguous(), *pages, mapping, cache_mode="Norm")


def check_head_dim(head_dim: int) -> None:
    """Raise UsageError for a model whose heads the NPU's attention does not take."""
    if head_dim % _HEAD_MULTIPLE:
        raise UsageError(f"head_dim is {head_dim}; attention on an NPU takes multiples of {_HEAD_MULTIPLE}")


def check_spec(spec: RunnerSpec) -> None:
    """Raise UsageError for a dtype or a page size that the NPU's attention does not take."""
    if spec.dtype not in _KERNEL_DTYPES:
        raise UsageError(f"dtype is {spec.dtype}; attention on an NPU takes {' or '.join(_KERNEL_DTYPES)}: --dtype")
    if spec.block_size % _PAGE_MULTIPLE or spec.block_size > _LARGEST_PAGE:
        raise UsageError(
            f"block_size is {spec.block_size}; attention on an NPU takes multiples of {_PAGE_MULTIPLE} up to "
            f"{_LARGEST_PAGE}: --block-size 128"
        )

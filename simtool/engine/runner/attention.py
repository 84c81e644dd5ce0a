"""Attention over cached keys and values, in the form that the models ask for (`layers.Attend`).

A decode batch is a true varlen batch: every row is a q=1 row with its own length and block table. Rows that follow
one another and name the same blocks are computed together, so their pages are gathered once; each row still
reads exactly the keys that its own length allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from simtool.engine.models.layers import Attend
from simtool.engine.runner.kv_cache import KVCache
from simtool.engine.runner.rows import BatchRows


@dataclass(frozen=True)
class RowGroups:
    """W rows arranged as G groups of at most w rows that share a block table.

    tables: [G, M]. lengths: [G, w], keys each row reads (1 in padding). places: [W], where each row sits in the
    flattened [G * w]; None where the rows fill it in order. max_length: the longest of the lengths.
    """

    tables: Tensor
    lengths: Tensor
    places: Tensor | None
    max_length: int

    @classmethod
    def of_rows(cls, tables: Tensor, lengths: Tensor, device: torch.device) -> RowGroups:
        """Group rows with tables [W, M] and lengths [W], both in host memory, for use on `device`."""
        rows = tables.numpy()  # small arrays: numpy's calls cost a fraction of torch's
        starts = np.flatnonzero(np.append(True, (rows[1:] != rows[:-1]).any(axis=1)))
        widths = np.diff(np.append(starts, len(rows)))
        groups, width, longest = len(starts), int(widths.max()), int(lengths.max())
        if groups * width == len(rows):
            return cls(_move(tables[::width], device), _move(lengths.view(groups, width), device), None, longest)
        places = torch.from_numpy(np.arange(len(rows)) + np.repeat(np.arange(groups) * width - starts, widths))
        padded = lengths.new_ones(groups * width).index_copy_(0, places, lengths).view(groups, width)
        own = _move(tables[torch.from_numpy(starts)], device)
        return cls(own, _move(padded, device), _move(places, device), longest)


class CachedAttention:
    """Writes each new row at its place in the cache, then lets every row attend to its own keys."""

    def __init__(self, cache: KVCache, mapping: Tensor, groups: RowGroups) -> None:
        """`mapping`: [W] flat cache index of each new row."""
        self._cache, self._mapping, self._groups = cache, mapping, groups
        self._bias: Tensor | None = None

    @property
    def keys_read(self) -> int:
        """Keys gathered in each layer and kv head: every table to the pages of the longest."""
        size = self._cache.block_size
        return len(self._groups.tables) * -(-self._groups.max_length // size) * size

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, /) -> Tensor:
        """Attend; shapes as in `layers.Attend`."""
        self._cache.write(layer, self._mapping, k, v)
        groups = self._groups
        keys, values = self._cache.read(layer, groups.tables, groups.max_length)
        padded = q
        if groups.places is not None:
            padded = q.new_zeros(groups.lengths.numel(), *q.shape[1:]).index_copy_(0, groups.places, q)
        if self._bias is None:  # the first layer tells how many query heads share a kv head; the others take its bias
            bias = length_bias(groups.lengths, groups.max_length, self._cache.dtype)
            self._bias = bias.repeat(1, q.shape[1] // k.shape[1], 1)[:, None]
        out = masked_attention(padded, keys, values, self._bias)
        return out if groups.places is None else out.index_select(0, groups.places)


class PromptAttention:
    """Causal attention of each prompt to itself, one prompt after another; its keys go to the cache."""

    def __init__(self, cache: KVCache, mapping: Tensor, cu_rows: list[int]) -> None:
        """`mapping`: [T]; `cu_rows`: [B + 1] row at which each prompt starts, and T."""
        self._cache, self._mapping = cache, mapping
        self._spans = [slice(start, end) for start, end in pairwise(cu_rows)]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, /) -> Tensor:
        """Attend; shapes as in `layers.Attend`."""
        self._cache.write(layer, self._mapping, k, v)
        return torch.cat([self._one(q[span], k[span], v[span]) for span in self._spans])

    def _one(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        repeat = q.shape[1] // k.shape[1]
        queries, keys, values = (
            x.transpose(0, 1)[None] for x in (q, k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1))
        )
        return functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)[0].transpose(0, 1)


class Kernels(Protocol):
    """What a Runner's decode forwards attend with. context_block: rows of a page of the drafter's context."""

    context_block: int

    def rows(self, cache: KVCache, rows: BatchRows) -> Attend:
        """Attention of validate rows, in the cheapest form for these rows."""

    def sequences(self, cache: KVCache, rows: BatchRows, longest: int) -> Attend:
        """Attention of sequences whose rows see the same keys, none more than `longest`.

        All that is read on the way is on the device but `longest`, so a graph of it may be replayed with other rows.
        """


class PlainKernels:
    """Attention in plain torch, on any device."""

    #: Small enough that little is gathered past a context's end.
    context_block = 16

    def rows(self, cache: KVCache, rows: BatchRows) -> Attend:
        """Rows that share a table are computed together."""
        groups = RowGroups.of_rows(rows.host_tables, rows.host_lengths, rows.ids.device)
        return CachedAttention(cache, rows.mapping, groups)

    def sequences(self, cache: KVCache, rows: BatchRows, longest: int) -> Attend:
        """Each sequence is a group."""
        lengths = rows.lengths[:, None].expand(-1, rows.width)
        return CachedAttention(cache, rows.mapping, RowGroups(rows.tables, lengths, None, longest))


def length_bias(lengths: Tensor, max_length: int, dtype: torch.dtype) -> Tensor:
    """[G, w] lengths -> [G, w, max_length]: 0 where a row may look and -inf beyond."""
    beyond = torch.arange(max_length, device=lengths.device) >= lengths[..., None]
    return torch.where(beyond, -torch.inf, 0.0).to(dtype)


def masked_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """q [G * w, heads, hd] over k, v [G, L, kv_heads, hd] -> [G * w, heads, hd].

    The query heads that share a kv head become rows of one matrix, so keys and values are never repeated.
    bias: added to the scores, [G, 1, heads / kv_heads * w, L], once for each of those heads.
    """
    groups, _, kv_heads, size = k.shape
    repeat = q.shape[1] // kv_heads
    folded = q.view(groups, -1, kv_heads, repeat, size).permute(0, 2, 3, 1, 4).reshape(groups, kv_heads, -1, size)
    out = functional.scaled_dot_product_attention(folded, k.transpose(1, 2), v.transpose(1, 2), attn_mask=bias)
    return out.view(groups, kv_heads, repeat, -1, size).permute(0, 3, 1, 2, 4).reshape(q.shape)


def _move(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy from host memory to the device without waiting for it, which takes pinned memory."""
    return tensor if device.type == "cpu" else tensor.contiguous().pin_memory().to(device, non_blocking=True)

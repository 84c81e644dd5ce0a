"""Attention that reads each page of a sequence once, where it lies: torch's flex attention with a block mask.

The plain kernels gather every table to the length of the longest, so a short sequence pays for a long one beside it,
and what is gathered is written and read again. Here the cache itself is the keys and values, of one batch entry, and
each sequence's table is its block mask: a page that no table names is not read, and a page that one names is read
once for all rows of that sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from simtool.engine.models.layers import Attend
from simtool.engine.runner.attention import RowGroups
from simtool.engine.runner.kv_cache import KVCache
from simtool.engine.runner.rows import BatchRows

#: What a block of queries is rounded up to; a group of rows is one block.
_QUERY_BLOCK = 128
#: Triton reads keys in tiles of a power of two, at most so many: a page is one tile or several.
_MOST_TILE = 64


@dataclass(frozen=True)
class PageMask:
    """Which keys of the cache G groups of w rows read.

    logical: [G, pages of the cache + 1], the place of each page in the group's table, or -1. lengths: [G, w], keys that
    each row reads. counts: [G], pages that the longest row of a group reads. tables: [G, M]. page: keys in one.
    """

    logical: Tensor
    lengths: Tensor
    counts: Tensor
    tables: Tensor
    page: int

    @classmethod
    def of(cls, groups: RowGroups, pages: int, page: int) -> PageMask:
        """Make it on the groups' device, of a cache with so many pages of `page` keys. Nothing is read back."""
        tables, lengths = groups.tables, groups.lengths
        counts = (lengths.amax(1) + page - 1) // page
        places = torch.arange(tables.shape[1], device=tables.device)
        # entries past the end all go to a page that is not there
        named = torch.where(places < counts[:, None], tables, pages)
        logical = torch.full((len(tables), pages + 1), -1, dtype=torch.int32, device=tables.device)
        logical.scatter_(1, named, places.to(torch.int32).expand(len(tables), -1))
        logical[:, pages] = -1
        return cls(logical, lengths, counts, tables, page)

    @property
    def keys_read(self) -> int:
        """Keys that a kernel reads by this mask in each layer and kv head: whole pages, each once for its group."""
        return int(self.counts.sum()) * self.page

    def blocks(self) -> BlockMask:
        """Return it as flex attention takes it."""
        rows, page, logical, lengths = self.lengths.shape[1], self.page, self.logical, self.lengths

        def mask(group: Tensor, _head: Tensor, row: Tensor, key: Tensor) -> Tensor:
            place = logical[group, key // page]
            return (place >= 0) & (place * page + key % page < lengths[group, row])

        return BlockMask.from_kv_blocks(
            self.counts.to(torch.int32)[:, None, None],
            self.tables.to(torch.int32)[:, None, None],
            BLOCK_SIZE=(-(-rows // _QUERY_BLOCK) * _QUERY_BLOCK, self.page),
            mask_mod=mask,
            seq_lengths=(rows, (self.logical.shape[1] - 1) * self.page),
            compute_q_blocks=False,
        )


class PagedAttention:
    """Writes each new row at its place in the cache, then lets every group read its own pages."""

    def __init__(self, cache: KVCache, mapping: Tensor, groups: RowGroups, attend: Callable[..., Any]) -> None:
        self._cache, self._mapping, self._groups, self._attend = cache, mapping, groups, attend
        pages = len(cache.pages(0)[0])
        self.mask = PageMask.of(groups, pages, cache.block_size)
        self._blocks = self.mask.blocks()
        self._options = {"BLOCK_N": min(cache.block_size, _MOST_TILE)}

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, /) -> Tensor:
        """Attend; shapes as in `layers.Attend`."""
        self._cache.write(layer, self._mapping, k, v)
        groups, (count, width) = self._groups, self._groups.lengths.shape
        padded = q
        if groups.places is not None:
            padded = q.new_zeros(count * width, *q.shape[1:]).index_copy_(0, groups.places, q)
        queries = padded.view(count, width, *q.shape[1:]).transpose(1, 2)
        keys, values = (each.flatten(0, 1).transpose(0, 1)[None] for each in self._cache.pages(layer))
        options = self._options if q.device.type == "cuda" else None
        out = self._attend(queries, keys, values, block_mask=self._blocks, enable_gqa=True, kernel_options=options)
        rows: Tensor = out.transpose(1, 2).reshape(padded.shape)
        return rows if groups.places is None else rows.index_select(0, groups.places)


class PagedKernels:
    """Flex attention over pages. compiled: by Triton on cuda; in eager torch it is the same sums, over all keys."""

    #: One tile of keys is one page of the drafter's context.
    context_block = _MOST_TILE

    def __init__(self, *, compiled: bool) -> None:
        self._attend = _attention(compiled=compiled)

    def rows(self, cache: KVCache, rows: BatchRows) -> Attend:
        """Rows that share a table are one group, whose pages are read once."""
        groups = RowGroups.of_rows(rows.host_tables, rows.host_lengths, rows.ids.device)
        return PagedAttention(cache, rows.mapping, groups, self._attend)

    def sequences(self, cache: KVCache, rows: BatchRows, longest: int) -> Attend:
        """Each sequence is a group: in a graph of single rows its pages are read once a row."""
        lengths = rows.lengths[:, None].expand(-1, rows.width)
        return PagedAttention(cache, rows.mapping, RowGroups(rows.tables, lengths, None, longest), self._attend)


@cache
def _attention(*, compiled: bool) -> Callable[..., Any]:
    """Flex attention: one compilation for all layers and models; shapes may change from step to step."""
    attend: Any = flex_attention
    if compiled:
        attend = torch.compile(flex_attention, dynamic=True)
    return cast(Callable[..., Any], attend)

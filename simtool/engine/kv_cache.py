"""Keys and values in pages: the target's paged cache, and the drafter's context with one page per slot."""

from __future__ import annotations

import torch
from torch import Tensor


class KVCache:
    """Per layer two tensors [num_blocks, block_size, kv_heads, head_dim].

    A token lives at `block * block_size + offset`, the flat index that slot mappings hold.
    """

    def __init__(
        self,
        layers: int,
        shape: tuple[int, int, int, int],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.block_size, self.dtype = shape[1], dtype
        self._keys = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(layers)]
        self._values = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(layers)]

    def write(self, layer: int, mapping: Tensor, keys: Tensor, values: Tensor) -> None:
        """Store keys and values [T, kv_heads, head_dim] at the flat indices `mapping` [T]."""
        self._keys[layer].flatten(0, 1).index_copy_(0, mapping, keys)
        self._values[layer].flatten(0, 1).index_copy_(0, mapping, values)

    def pages(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer as they lie, [num_blocks, block_size, kv_heads, head_dim] each."""
        return self._keys[layer], self._values[layer]

    def read(self, layer: int, tables: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Gather the first `length` tokens behind each block table: [G, M] -> keys, values [G, length, kv_heads, hd].

        What lies past a sequence's own length is other tokens' data: the caller masks it.
        """
        tables = tables[:, : -(-length // self.block_size)]
        groups, heads = len(tables), self._keys[layer].shape[2:]
        keys, values = (
            cache[layer][:, :length].index_select(0, tables.flatten()).view(groups, -1, *heads)[:, :length]
            for cache in (self._keys, self._values)
        )
        return keys, values

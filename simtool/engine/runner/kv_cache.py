"""Keys and values in pages: the target's paged cache, and the drafter's context with a run of pages per slot."""

from __future__ import annotations

import torch
from torch import Tensor


class KVCache:
    """Per layer keys and values, [num_blocks, block_size, kv_heads, head_dim] each.

    A token lives at `block * block_size + offset`, the flat index that slot mappings hold.
    """

    def __init__(
        self,
        layers: int,
        shape: tuple[int, int, int, int],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.block_size, self.dtype, self._heads = shape[1], dtype, shape[2:]
        # keys and values of a layer lie in one tensor, so that one op gathers both
        pairs = [torch.zeros((2, *shape), dtype=dtype, device=device) for _ in range(layers)]
        self._pages = [(pair[0], pair[1]) for pair in pairs]
        self._tokens = [(pair[0].flatten(0, 1), pair[1].flatten(0, 1)) for pair in pairs]
        self._runs = [pair.flatten(3) for pair in pairs]

    def write(self, layer: int, mapping: Tensor, keys: Tensor, values: Tensor) -> None:
        """Store keys and values [T, kv_heads, head_dim] at the flat indices `mapping` [T]."""
        own_keys, own_values = self._tokens[layer]
        own_keys.index_copy_(0, mapping, keys)
        own_values.index_copy_(0, mapping, values)

    def pages(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer as they lie, [num_blocks, block_size, kv_heads, head_dim] each."""
        return self._pages[layer]

    def read(self, layer: int, tables: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Gather the first `length` tokens behind each block table: [G, M] -> keys, values [G, length, kv_heads, hd].

        What lies past a sequence's own length is other tokens' data: the caller masks it.
        """
        pages = tables[:, : -(-length // self.block_size)].flatten()
        gathered = self._runs[layer].index_select(1, pages).view(2, len(tables), -1, *self._heads)
        keys, values = gathered[:, :, :length].unbind()
        return keys, values

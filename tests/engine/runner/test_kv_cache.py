from __future__ import annotations

import pytest
import torch

from simtool.engine.runner.kv_cache import KVCache


def filled(num_blocks: int, block_size: int) -> KVCache:
    """A cache of one layer whose every key holds its own flat index, and whose values hold its negative."""
    cache = KVCache(1, (num_blocks, block_size, 1, 1), torch.float32, torch.device("cpu"))
    indices = torch.arange(num_blocks * block_size)
    numbers = indices.float().view(-1, 1, 1)
    cache.write(0, indices, numbers, -numbers)
    return cache


@pytest.mark.parametrize(
    ("tables", "length", "expected"),
    [
        ([[2, 0]], 8, [[8, 9, 10, 11, 0, 1, 2, 3]]),
        ([[2, 0], [1, 3]], 6, [[8, 9, 10, 11, 0, 1], [4, 5, 6, 7, 12, 13]]),
        ([[2, 0], [1, 3]], 3, [[8, 9, 10], [4, 5, 6]]),
        ([[3, 1, 0]], 5, [[12, 13, 14, 15, 4]]),
    ],
    ids=["whole pages", "part of the last page", "part of the first page", "unused padding"],
)
def test_reads_the_first_tokens_behind_each_table(tables, length, expected):
    keys, values = filled(4, 4).read(0, torch.tensor(tables), length)
    assert keys.shape == (len(tables), length, 1, 1)
    assert keys[..., 0, 0].tolist() == expected
    assert torch.equal(values, -keys)


def test_write_touches_only_the_mapped_places_of_its_layer():
    cache = KVCache(2, (2, 2, 1, 3), torch.float64, torch.device("cpu"))
    rows = torch.ones(2, 1, 3, dtype=torch.float64)
    cache.write(1, torch.tensor([3, 0]), rows, 2 * rows)
    table = torch.tensor([[0, 1]])
    assert cache.read(0, table, 4)[0].count_nonzero() == 0
    keys, values = cache.read(1, table, 4)
    assert keys[0, :, 0, 0].tolist() == [1, 0, 0, 1]
    assert values[0, :, 0, 2].tolist() == [2, 0, 0, 2]

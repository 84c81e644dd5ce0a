"""Paged attention against one row at a time, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from simtool.engine.runner.attention import CachedAttention, PromptAttention, RowGroups
from simtool.engine.runner.kv_cache import KVCache

HEADS, KV_HEADS, SIZE, BLOCK = 4, 2, 8, 4
CPU = torch.device("cpu")


def random_rows(count: int, heads: int) -> Tensor:
    return torch.randn(count, heads, SIZE, dtype=torch.float64)


def random_cache(num_blocks: int) -> KVCache:
    cache = KVCache(1, (num_blocks, BLOCK, KV_HEADS, SIZE), torch.float64, CPU)
    count = num_blocks * BLOCK
    cache.write(0, torch.arange(count), random_rows(count, KV_HEADS), random_rows(count, KV_HEADS))
    return cache


def one_row(q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """q [heads, size] over keys and values [length, kv_heads, size], written as the formula."""
    out = []
    for head in range(HEADS):
        own = head // (HEADS // KV_HEADS)
        weights = (keys[:, own] @ q[head] / SIZE**0.5).softmax(0)
        out.append(weights @ values[:, own])
    return torch.stack(out)


@pytest.mark.parametrize(
    ("tables", "lengths"),
    [
        ([[5, 2, 7]], [9]),
        ([[5, 2, 7]] * 3 + [[1, 0, 0]] * 2 + [[3, 4, 0]], [8, 9, 10, 1, 2, 7]),
        ([[5, 2, 7]] * 3, [12, 3, 7]),
        ([[5, 2, 7], [1, 0, 0], [5, 2, 7]], [10, 3, 9]),
        ([[5, 2, 7]] * 2 + [[1, 3, 0]] * 2, [4, 5, 6, 7]),
    ],
    ids=["one row", "ragged", "lengths in no order", "same table apart", "full groups"],
)
def test_every_row_reads_its_own_keys_and_no_other(tables, lengths):
    torch.manual_seed(0)
    cache = random_cache(8)
    rows = len(lengths)
    places = [(table, length - 1) for table, length in zip(tables, lengths, strict=True)]
    mapping = torch.tensor([table[place // BLOCK] * BLOCK + place % BLOCK for table, place in places])
    q, k, v = random_rows(rows, HEADS), random_rows(rows, KV_HEADS), random_rows(rows, KV_HEADS)
    groups = RowGroups.of_rows(torch.tensor(tables), torch.tensor(lengths), CPU)
    out = CachedAttention(cache, mapping, groups)(0, q, k, v)
    for row, (table, length) in enumerate(zip(tables, lengths, strict=True)):
        keys, values = cache.read(0, torch.tensor([table]), length)
        torch.testing.assert_close(out[row], one_row(q[row], keys[0], values[0]))
    written, _ = cache.read(0, torch.arange(8)[None], 8 * BLOCK)
    assert torch.equal(written[0, mapping], k)


def test_rows_with_one_table_are_gathered_once():
    groups = RowGroups.of_rows(torch.tensor([[1], [1], [2]]), torch.tensor([3, 4, 2]), CPU)
    assert groups.tables.tolist() == [[1], [2]]
    assert groups.lengths.tolist() == [[3, 4], [2, 1]]
    assert groups.places is not None
    assert groups.places.tolist() == [0, 1, 2]
    assert groups.max_length == 4


def test_prompts_are_causal_and_do_not_see_each_other():
    torch.manual_seed(1)
    cache = random_cache(4)
    cu_rows = [0, 3, 4, 9]
    mapping = torch.randperm(4 * BLOCK)[:9]
    q, k, v = random_rows(9, HEADS), random_rows(9, KV_HEADS), random_rows(9, KV_HEADS)
    out = PromptAttention(cache, mapping, cu_rows)(0, q, k, v)
    for start, end in ((0, 3), (3, 4), (4, 9)):
        for row in range(start, end):
            torch.testing.assert_close(out[row], one_row(q[row], k[start : row + 1], v[start : row + 1]))
    written, _ = cache.read(0, torch.arange(4)[None], 4 * BLOCK)
    assert torch.equal(written[0, mapping], k)

"""Attention over pages: the sums of the plain kernels, and no key read but the sequence's own, each once."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from simtool.engine.runner.attention import CachedAttention, PlainKernels
from simtool.engine.runner.kv_cache import KVCache
from simtool.engine.runner.paged_attention import PagedAttention, PagedKernels
from simtool.engine.runner.rows import BatchRows
from simtool.engine.runner.spec import attention_on
from simtool.errors import UsageError
from simtool.step.placement import BUILT_IN
from tests.engine import golden
from tests.engine.small_runs import full, ragged, random_prompts, reference, requests, serve

PAGE, HEADS, KV_HEADS, SIZE = 16, 4, 2, 8


def filled_cache(pages, seed=0):
    cache = KVCache(2, (pages, PAGE, KV_HEADS, SIZE), torch.float64, torch.device("cpu"))
    rng = torch.Generator().manual_seed(seed)
    for layer in range(2):
        for part in cache.pages(layer):
            part.copy_(torch.randn(part.shape, generator=rng, dtype=torch.float64))
    return cache


def rows_of(widths, ends, pages, seed=0):
    """Rows of sequences whose last rows read `ends` keys, in pages dealt at random."""
    free = np.random.default_rng(seed).permutation(pages).tolist()
    tables, lengths, mapping = [], [], []
    columns = max(-(-end // PAGE) for end in ends)
    for width, end in zip(widths, ends, strict=True):
        own = [free.pop() for _ in range(-(-end // PAGE))]
        for position in range(end - width, end):
            tables.append([*own, *[0] * (columns - len(own))])
            lengths.append(position + 1)
            mapping.append(own[position // PAGE] * PAGE + position % PAGE)
    host_tables, host_lengths = torch.tensor(tables), torch.tensor(lengths)
    return BatchRows(
        ids=torch.zeros_like(host_lengths),
        positions=host_lengths - 1,
        mapping=torch.tensor(mapping),
        tables=host_tables,
        lengths=host_lengths,
        host_tables=host_tables,
        host_lengths=host_lengths,
    )


def attended(kernels, cache, rows, by_row=False):
    rng = torch.Generator().manual_seed(3)
    q, k, v = (
        torch.randn(len(rows.ids), n, SIZE, generator=rng, dtype=torch.float64) for n in (HEADS, KV_HEADS, KV_HEADS)
    )
    attend = kernels.sequences(cache, rows, rows.longest) if by_row else kernels.rows(cache, rows)
    return attend(1, q, k, v), attend


SHAPES = [((1,), (5,)), ((3, 1, 4), (20, 33, 6)), ((2, 2, 2), (16, 32, 48)), ((8, 1, 5, 2), (9, 70, 31, 17))]


@pytest.mark.parametrize(("widths", "ends"), SHAPES)
@pytest.mark.parametrize("by_row", [False, True], ids=["grouped", "row by row"])
def test_the_sums_are_those_of_the_plain_kernels(widths, ends, by_row):
    rows, pages = rows_of(widths, ends, 16), 16
    plain, _ = attended(PlainKernels(), filled_cache(pages), rows, by_row)
    paged, _ = attended(PagedKernels(compiled=False), filled_cache(pages), rows, by_row)
    assert torch.allclose(plain, paged, atol=1e-12)


def keys_read(kernels, widths, ends, by_row=False):
    _, attend = attended(kernels, filled_cache(64), rows_of(widths, ends, 64), by_row)
    return (attend.mask if isinstance(attend, PagedAttention) else attend).keys_read


def test_what_a_sequence_reads_does_not_grow_with_the_longest_beside_it():
    """Counted, not timed. The plain kernels gather everyone to the longest; that is why they are not used on cuda."""
    short = ((4, 4, 4), (20, 20, 20))
    for longest in (64, 256, 512):
        own = keys_read(PagedKernels(compiled=False), (4,), (longest,))
        assert own == longest
        others = keys_read(PagedKernels(compiled=False), (*short[0], 4), (*short[1], longest)) - own
        assert others == keys_read(PagedKernels(compiled=False), *short) == 3 * 32
        assert keys_read(PlainKernels(), (*short[0], 4), (*short[1], longest)) == 4 * longest


def test_what_is_read_is_linear_in_the_keys_and_not_in_the_rows():
    for width in (1, 4, 8):
        assert [keys_read(PagedKernels(compiled=False), (width, width), (keys, keys)) for keys in (32, 64, 128)] == [
            64,
            128,
            256,
        ]
    # a graph of single rows does not know which of them share a table
    assert keys_read(PagedKernels(compiled=False), (4, 4), (32, 32), by_row=True) == 4 * 64


def test_the_count_of_the_plain_kernels_is_what_they_gather(monkeypatch):
    counted = []
    plain = KVCache.read

    def counting(cache, layer, tables, length):
        keys, values = plain(cache, layer, tables, length)
        counted.append(tables[:, : -(-length // PAGE)].numel() * PAGE)
        return keys, values

    monkeypatch.setattr(KVCache, "read", counting)
    for widths, ends in SHAPES:
        _, attend = attended(PlainKernels(), filled_cache(16), rows_of(widths, ends, 16))
        assert isinstance(attend, CachedAttention)
        assert attend.keys_read == counted[-1]


def test_the_mask_names_each_of_a_groups_pages_once_and_no_other():
    for widths, ends in SHAPES:
        rows = rows_of(widths, ends, 16)
        _, attend = attended(PagedKernels(compiled=False), filled_cache(16), rows)
        blocks = attend.mask.blocks()
        at = 0
        for group, (width, end) in enumerate(zip(widths, ends, strict=True)):
            named = blocks.kv_indices[group, 0, 0, : blocks.kv_num_blocks[group, 0, 0]].tolist()
            assert named == rows.tables[at, : -(-end // PAGE)].tolist()
            at += width


@pytest.mark.parametrize("name", ["dspark_b7", "dflash_b16"])
@pytest.mark.parametrize("prefixes", [full, ragged(4)], ids=["full", "ragged"])
def test_the_engine_emits_the_targets_tokens_with_it(name, prefixes):
    spec = golden.spec(name, dtype="float64", attention="pages", block_size=PAGE, kv_blocks=64)
    prompts = random_prompts(5, (6, 11, 3))
    result, _ = serve(spec, requests(prompts, 20), BUILT_IN["lag"], prefixes=prefixes)
    for index, prompt in enumerate(prompts):
        assert result.output_ids[f"r{index:02d}"] == reference(name, prompt, 20)


def test_which_attention_a_device_takes():
    spec = golden.spec("dspark_b7", block_size=16)
    assert [attention_on(spec, kind) for kind in ("cpu", "cuda", "npu")] == ["gather", "pages", None]
    assert attention_on(replace(spec, attention="pages"), "cpu") == "pages"
    assert attention_on(replace(spec, attention="gather"), "cuda") == "gather"
    assert attention_on(replace(spec, dtype="float64"), "cuda") == "gather"
    for size in (8, 24):
        assert attention_on(replace(spec, block_size=size), "cuda") == "gather"
        with pytest.raises(UsageError, match=f"block_size is {size}; attention over pages"):
            attention_on(replace(spec, block_size=size, attention="pages"), "cuda")
    with pytest.raises(UsageError, match="kernels of its own"):
        attention_on(replace(spec, attention="pages"), "npu")
    with pytest.raises(UsageError, match="attention is 'sparse'"):
        replace(spec, attention="sparse")  # type: ignore[arg-type]

"""What decode attention reads, and what its time grows with: on any device, for each kind of attention.

    python benchmarks/attention_shape.py --device cpu
    python benchmarks/attention_shape.py --device cuda

Two questions, each answered by a count of keys (exact) and by a median time over turns (of this machine):
`others`: seven sequences of one length and one that grows. Do the seven pay for the eighth? A kernel that gathers does:
it reads eight times the longest. `keys`: eight sequences that grow together: time over keys read should be a straight
line. Attention over pages is compiled on cuda, and on a cpu with --compile (a C++ compiler must be there); in eager
torch it is the same sums over every key of the cache, so without --compile a cpu only counts what it would read.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch

from simtool.engine.devices.open import torch_device
from simtool.engine.runner.attention import CachedAttention, Kernels, PlainKernels
from simtool.engine.runner.kv_cache import KVCache
from simtool.engine.runner.paged_attention import PagedAttention, PagedKernels
from simtool.engine.runner.rows import BatchRows

PAGE, WIDTH, SEQUENCES = 16, 8, 8
TURNS, CALLS = 7, 5


@dataclass(frozen=True)
class Sizes:
    """Heads, kv heads and head size of the attention that is timed; a layer of Qwen3-8B has 32, 8 and 128."""

    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    dtype: str = "float32"


@dataclass(frozen=True)
class Point:
    """One batch: keys of its sequences, keys read in a layer and kv head, and the median time of a call in us."""

    ends: tuple[int, ...]
    keys_read: int
    median_us: float | None


def rows_of(ends: Sequence[int], pages: int, device: str) -> BatchRows:
    """WIDTH rows of each sequence, whose last reads `ends` keys, in pages dealt at random."""
    free = np.random.default_rng(0).permutation(pages).tolist()
    columns = max(-(-end // PAGE) for end in ends)
    tables, lengths, mapping = [], [], []
    for end in ends:
        own = [free.pop() for _ in range(-(-end // PAGE))]
        for position in range(end - WIDTH, end):
            tables.append([*own, *[0] * (columns - len(own))])
            lengths.append(position + 1)
            mapping.append(own[position // PAGE] * PAGE + position % PAGE)
    host = [torch.tensor(each) for each in (mapping, lengths, tables)]
    places, reads, named = (each.to(device) for each in host)
    return BatchRows(
        ids=reads, positions=reads - 1, mapping=places, tables=named, lengths=reads, host_tables=host[2],
        host_lengths=host[1],
    )  # fmt: skip


@torch.inference_mode()
def measure(kernels: Kernels, ends: Sequence[int], sizes: Sizes, cache: KVCache, device: str, *, timed: bool) -> Point:
    """Count the keys that one layer's attention of a batch reads and, where that means something, time it."""
    pages = len(cache.pages(0)[0])
    rows = rows_of(ends, pages, device)
    shape, count = (sizes.heads, sizes.kv_heads, sizes.kv_heads), len(rows.ids)
    dtype = getattr(torch, sizes.dtype)
    q, k, v = (torch.randn(count, heads, sizes.head_dim, dtype=dtype, device=device) for heads in shape)
    attend = kernels.rows(cache, rows)
    assert isinstance(attend, PagedAttention | CachedAttention), "the kernels that are compared here"
    reads = attend.mask.keys_read if isinstance(attend, PagedAttention) else attend.keys_read
    if not timed:
        return Point(tuple(ends), reads, None)
    spent = []
    for turn in range(TURNS + 1):
        start = time.perf_counter()
        for _ in range(CALLS):
            out = attend(0, q, k, v)
        float(out[0, 0, 0])  # reading one number waits for all
        if turn:
            spent.append((time.perf_counter() - start) / CALLS)
    return Point(tuple(ends), reads, round(statistics.median(spent) * 1e6, 1))


def main() -> None:
    """Print one JSON document."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--short", type=int, default=256)
    parser.add_argument("--longest", type=int, default=4096)
    parser.add_argument("--compile", action="store_true", help="compile attention over pages on a cpu too")
    given = parser.parse_args()
    device, sizes = torch_device(given.device), Sizes(dtype=given.dtype)
    if device == "cpu":
        torch.set_num_threads(1)
    grown = [given.short * 2**power for power in range((given.longest // given.short).bit_length())]
    pages = SEQUENCES * -(-grown[-1] // PAGE) + 1
    shape = (pages, PAGE, sizes.kv_heads, sizes.head_dim)
    cache = KVCache(1, shape, getattr(torch, sizes.dtype), torch.device(device))
    compiled = given.compile or device != "cpu"
    kinds: dict[str, Kernels] = {
        "gather": PlainKernels(),
        "pages": PagedKernels(compiled=compiled),
    }
    found: dict[str, dict[str, list[dict[str, object]]]] = {}
    for name, kernels in kinds.items():
        batches = {
            "others": [[given.short] * (SEQUENCES - 1) + [longest] for longest in grown],
            "keys": [[each] * SEQUENCES for each in grown],
        }
        found[name] = {
            question: [
                asdict(measure(kernels, ends, sizes, cache, device, timed=compiled or name == "gather"))
                for ends in asked
            ]
            for question, asked in batches.items()
        }
    print(json.dumps({"device": device, "sizes": asdict(sizes), "page": PAGE, "rows": WIDTH, "found": found}, indent=1))


if __name__ == "__main__":
    main()

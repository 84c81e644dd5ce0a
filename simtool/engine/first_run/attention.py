"""Attention of the device against the same in float64 on the CPU: validate rows and draft blocks, in each layout."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from simtool.engine.first_run.check import DeviceCheck, attempt
from simtool.engine.runner.attention import Kernels, PlainKernels
from simtool.engine.runner.kv_cache import KVCache
from simtool.engine.runner.npu.attention import NpuKernels
from simtool.engine.runner.rows import BatchRows
from simtool.engine.runner.spec import NPU_LAYOUTS

_PAGE = 128
#: Of an average of some hundred values of size 1, in half precision.
TOLERANCE = 2e-2


@dataclass(frozen=True)
class Heads:
    """Query heads, heads of keys and values, and their size."""

    query: int
    kv: int
    size: int


#: Qwen3-0.6B's, and small ones as the shipped pair has them.
HEADS = (Heads(16, 8, 128), Heads(4, 2, 32))


@dataclass(frozen=True)
class Problem:
    """A batch and what stands in the cache before it; all in float64 on the CPU."""

    heads: Heads
    width: int
    lengths: tuple[int, ...]

    def on(self, device: torch.device, dtype: torch.dtype) -> tuple[KVCache, BatchRows, tuple[Tensor, Tensor, Tensor]]:
        """The same problem on a device: its cache, its rows, and their queries, keys and values."""
        random = torch.Generator().manual_seed(1)
        heads, count = self.heads, len(self.lengths)
        pages = -(-max(self.lengths) // _PAGE)
        cache = KVCache(1, (count * pages, _PAGE, heads.kv, heads.size), dtype, device)
        for part in cache.pages(0):
            part.copy_(torch.randn(part.shape, generator=random, dtype=torch.float64).to(dtype))
        tables = torch.randperm(count * pages, generator=random).view(count, pages)
        lengths = torch.tensor(self.lengths)
        first = lengths - self.width  # a batch's own keys are its last
        positions = (first[:, None] + torch.arange(self.width)).flatten()
        page = tables.repeat_interleave(self.width, 0).gather(1, positions[:, None] // _PAGE)[:, 0]
        mapping = page * _PAGE + positions % _PAGE
        shapes = ((heads.query, heads.size), (heads.kv, heads.size), (heads.kv, heads.size))
        drawn = [torch.randn(len(positions), *shape, generator=random, dtype=torch.float64) for shape in shapes]
        q, k, v = (x.to(dtype).to(device) for x in drawn)
        rows = BatchRows(
            ids=positions.to(device),
            positions=positions.to(device),
            mapping=mapping.to(device),
            tables=tables.to(device),
            lengths=lengths.to(device),
            host_tables=tables,
            host_lengths=lengths,
        )
        return cache, rows, (q, k, v)

    def solve(self, kernels: Kernels, device: torch.device, dtype: torch.dtype) -> Tensor:
        """Attend on the device; float64 on the CPU, [rows, heads, size]."""
        cache, rows, (q, k, v) = self.on(device, dtype)
        one_row = self.width == 1
        attend = kernels.rows(cache, rows) if one_row else kernels.sequences(cache, rows, max(self.lengths))
        return attend(0, q, k, v).to("cpu").double()


_BATCHES = {
    "validate rows": tuple(Problem(heads, 1, (1, 17, 128, 129, 300)) for heads in HEADS),
    "draft blocks": tuple(Problem(heads, 7, (7, 100, 263)) for heads in HEADS),
}


def kernels_of(device: torch.device) -> dict[str, Kernels]:
    """What the engine could attend with there, by name."""
    if device.type == "npu":
        return {layout: NpuKernels(layout) for layout in NPU_LAYOUTS}
    return {"plain torch": PlainKernels()}


def check_attention(device: torch.device, dtype: torch.dtype) -> list[DeviceCheck]:
    """A check for each kind of kernel and of batch."""
    checks = []
    for name, kernels in kernels_of(device).items():
        for batch, problems in _BATCHES.items():
            title = f"attention, {name}, {batch}"
            checks.append(attempt(title, partial(_agreement, title, kernels, problems, device, dtype)))
    return checks


def _agreement(
    title: str, kernels: Kernels, problems: tuple[Problem, ...], device: torch.device, dtype: torch.dtype
) -> DeviceCheck:
    worst: dict[str, float] = {}
    for problem in problems:
        expected = problem.solve(PlainKernels(), torch.device("cpu"), torch.float64)
        found = problem.solve(kernels, device, dtype)
        heads = problem.heads
        worst[f"{heads.query}/{heads.kv} heads of {heads.size}"] = float((found - expected).abs().max())
    good = all(difference <= TOLERANCE for difference in worst.values())
    said = f"largest difference from float64 on the CPU: {max(worst.values()):.2g} (allowed: {TOLERANCE})"
    return DeviceCheck(title, "ok" if good else "wrong", said, {"largest_difference": worst})

"""Live validate timings over batch x query x prefix: what the controller's predictor is fitted from.

The grid is xLLM's: batch {1, 16, 32}, query {1, mid, max}, prefix {16, max/4, max}. Contents of the cache do not
matter to its speed, so the probed sequences read whatever the pages hold.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from itertools import product

from simtool.engine.devices.protocol import Device, HostArray
from simtool.units import ns_to_ms

_BATCHES = (1, 16, 32)
_SHORTEST_PREFIX = 16


@dataclass(frozen=True)
class ValidateSample:
    """One shape and the median target forward that it took. query: rows per sequence; prefix: kv tokens before them."""

    batch: int
    query: int
    prefix: int
    validate_ms: float

    @property
    def rows(self) -> int:
        """W of the probed batch."""
        return self.batch * self.query

    @property
    def row_prefixes(self) -> int:
        """Sum over rows of the sequence's kv length, the predictor's second feature."""
        return self.rows * self.prefix


def probe_grid(drafts: int, longest_prefix: int) -> list[tuple[int, int, int]]:
    """Return the (batch, query, prefix) shapes, shortest first, without repeats."""
    queries = {1, (drafts + 2) // 2, drafts + 1}
    prefixes = {min(_SHORTEST_PREFIX, longest_prefix), max(longest_prefix // 4, 1), longest_prefix}
    return sorted(product(_BATCHES, queries, prefixes))


def probe_validate(
    device: Device, grid: list[tuple[int, int, int]], kv_blocks: int, block_size: int, repeats: int = 5
) -> list[ValidateSample]:
    """Time the target forward on each shape: median of `repeats` runs after one that warms up.

    Overwrites KV pages, so nothing may be running. Raises DeviceError when the device fails.
    """
    device.timings()
    samples = []
    flow = 0
    for batch, query, prefix in grid:
        if batch * query > kv_blocks * block_size:
            continue
        arrays = validate_arrays(batch, query, prefix, kv_blocks, block_size)
        event = device.upload("build_dense", flow, arrays)
        for _ in range(repeats + 1):
            flow += 1
            event = device.launch("target", flow, (event,))
        device.wait(event)
        spans = [work.end_ns - work.start_ns for work in device.timings() if work.work == "target"]
        samples.append(ValidateSample(batch, query, prefix, ns_to_ms(statistics.median(spans[1:]))))
    return samples


def validate_arrays(batch: int, query: int, prefix: int, kv_blocks: int, block_size: int) -> dict[str, HostArray]:
    """Rows of `batch` sequences, `query` each, behind `prefix` keys, in a cache that may be smaller than they are."""
    rows = [(sequence, prefix + row) for sequence in range(batch) for row in range(query)]
    pages = -(-(prefix + query) // block_size)
    tables = [[(sequence * pages + page) % kv_blocks for page in range(pages)] for sequence in range(batch)]
    return {
        "validate_ids": [0] * len(rows),
        "validate_positions": [position for _, position in rows],
        # tables may share pages, but no place may be written twice in one op: rows are spread over the whole cache
        "validate_slot_mapping": [row * (kv_blocks * block_size // len(rows)) for row in range(len(rows))],
        "validate_kv_lens": [position + 1 for _, position in rows],
        "validate_block_tables": [tables[sequence] for sequence, _ in rows],
        "validate_cu_rows": [sequence * query for sequence in range(batch + 1)],
    }

"""The cost features of `step/cost_features.py` as columns of an array; its tests hold the two equal.

What the batch alone decides is taken from there, so only sums over sequences are written twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simtool.replay.compiled.kernel import part
from simtool.step.cost_features import DECODE_FEATURES, PREFILL_FEATURES, DecodeShape
from simtool.step.graph_buckets import GraphBuckets

Floats = NDArray[np.float64]

#: Columns of sizes: a decode's features or a prefill's, each in its own order.
COLUMNS = max(len(DECODE_FEATURES), len(PREFILL_FEATURES))

_DRAFT_KV, _ACCEPTED_ROWS, _RECTANGLE, _DRAFT_RECTANGLE = map(
    DECODE_FEATURES.index, ("draft_kv", "accepted_rows", "rectangle_keys", "draft_rectangle")
)
_BLOCK_ROWS = DECODE_FEATURES.index("block_rows")
_DENSE_ROWS, _VALIDATE_ROWS, _VALIDATE_KV, _RAGGED, _TARGET_ROWS, _PAST, _PAST_ROWS = map(
    DECODE_FEATURES.index,
    ("dense_rows", "validate_rows", "validate_kv", "ragged", "target_rows", "past_graphs", "past_graph_rows"),
)
_PROMPTS, _PROMPT_ROWS, _PROMPT_KV, _PREFILLED = map(
    PREFILL_FEATURES.index, ("batch", "prompt_rows", "prompt_kv", "accepted_rows")
)


class SizeTables(NamedTuple):
    """by_batch: [largest batch + 1, features], right where the batch alone decides. bucket: [largest validate rows + 1]
    rows of the graph that runs so many; 0: none does. captured: there are graphs of the target forward.
    """

    by_batch: Floats
    bucket: NDArray[np.int64]
    captured: bool


class DecodeTotals(NamedTuple):
    """What a decode comes to over its sequences: see `DecodeShape`.

    draft_keys, keys: read by the draft and the target forward. rows: validated. tokens: emitted. widest: rows of the
    widest sequence. longest: keys that the last row of any sequence reads, at most. draft_longest: of any block.
    """

    draft_keys: int
    rows: int
    keys: int
    tokens: int
    widest: int
    longest: int
    draft_longest: int


def size_tables(batch: int, drafts: int, width: int, graphs: GraphBuckets) -> SizeTables:
    """Return the tables of batches up to `batch`."""
    by_batch = np.zeros((batch + 1, COLUMNS))
    for count in range(1, batch + 1):
        by_batch[count] = DecodeShape(
            num_speculative_tokens=drafts,
            block_width=width,
            kv_lens=[0] * count,
            prefix_lens=[drafts] * count,
            emitted=[1] * count,
            graphs=graphs,
        ).sizes()
    target = np.array((*graphs.target, 0), np.int64)
    bucket = target[np.searchsorted(target[:-1], np.arange(batch * (drafts + 1) + 1))]
    return SizeTables(by_batch, bucket, bool(graphs.target))


@part
def fill_prefill(sizes: Floats, batch: int, rows: int, keys: int) -> None:
    """Fill the features of a prefill; keys: that all its rows read."""
    sizes[_PROMPTS], sizes[_PROMPT_ROWS], sizes[_PROMPT_KV], sizes[_PREFILLED] = batch, rows, keys, rows


@part
def fill_decode(sizes: Floats, tables: SizeTables, batch: int, totals: DecodeTotals) -> None:
    """Fill the features of a decode."""
    rows = totals.rows
    for column in range(len(sizes)):
        sizes[column] = tables.by_batch[batch, column]
    sizes[_DRAFT_KV], sizes[_VALIDATE_ROWS], sizes[_VALIDATE_KV] = totals.draft_keys, rows, totals.keys
    sizes[_RAGGED], sizes[_ACCEPTED_ROWS] = 1.0 if rows < sizes[_DENSE_ROWS] else 0.0, totals.tokens
    sizes[_RECTANGLE] = batch * totals.widest * totals.longest
    sizes[_DRAFT_RECTANGLE] = tables.by_batch[batch, _BLOCK_ROWS] * totals.draft_longest
    bucket = tables.bucket[rows]
    past = tables.captured and bucket == 0
    sizes[_TARGET_ROWS] = 0 if past else (bucket if bucket else rows)
    sizes[_PAST], sizes[_PAST_ROWS] = (1.0, rows) if past else (0.0, 0.0)

"""The compiled cost features against those of the step: every one, for drawn batches, in graphs and past them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simtool.replay.compiled.sizes import COLUMNS, DecodeTotals, fill_decode, fill_prefill, size_tables
from simtool.step.cost_features import PREFILL_FEATURES, DecodeShape, prefill_sizes
from simtool.step.graph_buckets import GraphBuckets, make_buckets

SEQUENCES = st.tuples(st.integers(1, 10**6), st.integers(0, 16), st.integers(1, 17))


@settings(max_examples=500, deadline=None)
@given(
    sequences=st.lists(SEQUENCES, min_size=1, max_size=64),
    drafts=st.integers(0, 16),
    width=st.integers(1, 17),
    largest=st.sampled_from((0, 1, 8, 100, 2000)),
)
def test_a_decode(sequences, drafts, width, largest):
    graphs = GraphBuckets(make_buckets(min(largest, 32)), make_buckets(largest))
    for count in {1, len(sequences) // 2 or 1, len(sequences)}:
        kv_lens, prefixes, emitted = map(list, zip(*sequences[:count], strict=True))
        prefixes = [min(prefix, drafts) for prefix in prefixes]
        shape = DecodeShape(drafts, width, kv_lens, prefixes, emitted, graphs)
        sizes = np.full(COLUMNS, np.nan)
        widths = [prefix + 1 for prefix in prefixes]
        keys = sum(kv + row + 1 for kv, rows in zip(kv_lens, widths, strict=True) for row in range(rows))
        draft_keys = sum(width * (kv + width) for kv in kv_lens)
        tables = size_tables(len(sequences), drafts, width, graphs)
        longest = max(kv + rows for kv, rows in zip(kv_lens, widths, strict=True))
        totals = DecodeTotals(draft_keys, sum(widths), keys, sum(emitted), max(widths), longest, max(kv_lens) + width)
        fill_decode(sizes, tables, count, totals)
        assert sizes.tolist() == list(shape.sizes())
        assert (tables.bucket[sum(widths)] or None) == shape.graph_bucket


@settings(deadline=None)
@given(prompts=st.lists(st.integers(1, 10**5), min_size=1, max_size=20))
def test_a_prefill(prompts):
    sizes = np.full(COLUMNS, np.nan)
    keys = sum(length * (length + 1) // 2 for length in prompts)
    fill_prefill(sizes, len(prompts), sum(prompts), keys)
    assert sizes[: len(PREFILL_FEATURES)].tolist() == list(prefill_sizes(prompts))

"""Cost features: the numbers that an op's duration grows with, computed one way for recordings and replays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from simtool.step.graph_buckets import GraphBuckets, pick_bucket

#: The features of a decode step, in the order of `DecodeShape.sizes`.
DECODE_FEATURES = (
    "batch",
    "block_rows",
    "draft_rows",
    "draft_kv",
    "draft_tokens",
    "dense_rows",
    "validate_rows",
    "validate_kv",
    "ragged",
    "target_rows",
    "past_graphs",
    "past_graph_rows",
    "decide_work",
    "accepted_rows",
    "rectangle_keys",
    "draft_rectangle",
)

#: The features of a prefill step, in the order of `prefill_sizes`.
PREFILL_FEATURES = ("batch", "prompt_rows", "prompt_kv", "accepted_rows")

#: Every feature name that the op catalogue may use.
FEATURES = tuple(dict.fromkeys((*DECODE_FEATURES, *PREFILL_FEATURES)))


@dataclass(frozen=True)
class DecodeShape:
    """The sizes of one decode step.

    kv_lens: per sequence, committed tokens before the anchor (= anchor position). prefix_lens, emitted: per
    sequence. block_width: rows of the draft forward per sequence. graphs: the buckets that batches are padded to.
    """

    num_speculative_tokens: int
    block_width: int
    kv_lens: Sequence[int]
    prefix_lens: Sequence[int]
    emitted: Sequence[int]
    graphs: GraphBuckets = field(default_factory=GraphBuckets)

    @property
    def graph_bucket(self) -> int | None:
        """Rows of the graph that runs the target forward; None: it runs eagerly."""
        return pick_bucket(self.graphs.target, sum(self.prefix_lens) + len(self.prefix_lens))

    def features(self) -> dict[str, float]:
        """Return every decode feature by name; see `sizes`."""
        return dict(zip(DECODE_FEATURES, self.sizes(), strict=True))

    def sizes(self) -> tuple[float, ...]:
        """Return the sizes in the order of DECODE_FEATURES; row r of a sequence reads kv_len + r + 1 keys.

        ragged: 1 when some prefix is cut, and a forward then gathers unequal widths into a rectangle and back.
        target_rows, draft_rows: rows that a forward computes, padding included. A target forward past the largest
        graph is another program: past_graphs is then 1 and its rows are past_graph_rows, with target_rows 0.
        rectangle_keys: what attention reads that arranges its rows as a rectangle, every sequence as wide as the widest
        and as long as the longest (the CPU's kernels; BSH on an NPU); one that takes true lengths reads validate_kv.
        draft_rectangle, draft_kv: the same two of the draft, whose blocks are all as wide.
        """
        batch, drafts, width = len(self.kv_lens), self.num_speculative_tokens, self.block_width
        candidates = batch * drafts
        rows = sum(self.prefix_lens) + batch
        bucket = pick_bucket(self.graphs.target, rows)
        past = bool(self.graphs.target) and bucket is None
        widest = max(self.prefix_lens, default=0) + 1
        longest = max([kv + p + 1 for kv, p in zip(self.kv_lens, self.prefix_lens, strict=True)], default=0)
        block = width * (max(self.kv_lens, default=0) + width)  # of each sequence, as long as the longest context
        keys = sum([(p + 1) * (kv + kv + p + 2) for kv, p in zip(self.kv_lens, self.prefix_lens, strict=True)]) // 2
        return (
            batch,
            batch * width,
            self.graphs.draft_sequences(batch) * width,
            width * (sum(self.kv_lens) + batch * width),
            candidates,
            candidates + batch,
            rows,
            keys,
            int(min(self.prefix_lens, default=drafts) < drafts),
            0 if past else bucket or rows,
            int(past),
            rows if past else 0,
            candidates * math.log2(max(candidates, 2)),
            sum(self.emitted),
            batch * widest * longest,
            batch * block,
        )


def prefill_sizes(prompt_lens: Sequence[int]) -> tuple[float, ...]:
    """Return the sizes of a prefill step in the order of PREFILL_FEATURES; row r of a prompt reads r + 1 keys."""
    rows = sum(prompt_lens)
    keys = sum([length * (length + 1) for length in prompt_lens]) // 2
    return len(prompt_lens), rows, keys, rows

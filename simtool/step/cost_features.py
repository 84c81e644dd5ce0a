"""Cost features: the numbers that an op's duration grows with, computed one way for recordings and replays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from simtool.step.graph_buckets import GraphBuckets, pick_bucket

#: Every feature name that the op catalogue may use.
FEATURES = (
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
    "prompt_rows",
    "prompt_kv",
)


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
        """Return every decode feature; row r of a sequence reads kv_len + r + 1 keys.

        ragged: 1 when some prefix is cut, and a forward then gathers unequal widths into a rectangle and back.
        target_rows, draft_rows: rows that a forward computes, padding included. A target forward past the largest
        graph is another program: past_graphs is then 1 and its rows are past_graph_rows, with target_rows 0.
        """
        batch, drafts = len(self.kv_lens), self.num_speculative_tokens
        widths = [prefix + 1 for prefix in self.prefix_lens]
        validate_kv = sum(width * kv + width * (width + 1) // 2 for kv, width in zip(self.kv_lens, widths, strict=True))
        candidates = batch * drafts
        past = bool(self.graphs.target) and self.graph_bucket is None
        return {
            "batch": batch,
            "block_rows": batch * self.block_width,
            "draft_rows": self.graphs.draft_sequences(batch) * self.block_width,
            "draft_kv": self.block_width * sum(kv + self.block_width for kv in self.kv_lens),
            "draft_tokens": candidates,
            "dense_rows": batch * (drafts + 1),
            "validate_rows": sum(widths),
            "validate_kv": validate_kv,
            "ragged": int(any(prefix < drafts for prefix in self.prefix_lens)),
            "target_rows": 0 if past else self.graph_bucket or sum(widths),
            "past_graphs": int(past),
            "past_graph_rows": sum(widths) if past else 0,
            "decide_work": candidates * math.log2(max(candidates, 2)),
            "accepted_rows": sum(self.emitted),
        }


def prefill_features(prompt_lens: Sequence[int]) -> dict[str, float]:
    """Return the features of a prefill step; a prompt row reads its own position + 1 keys."""
    rows = sum(prompt_lens)
    return {
        "batch": len(prompt_lens),
        "prompt_rows": rows,
        "prompt_kv": sum(length * (length + 1) // 2 for length in prompt_lens),
        "accepted_rows": rows,
    }

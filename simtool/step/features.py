"""Cost features: the numbers that an op's duration grows with, computed one way for recordings and replays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: Every feature name that the op catalogue may use.
FEATURES = (
    "batch",
    "block_rows",
    "draft_kv",
    "draft_tokens",
    "dense_rows",
    "validate_rows",
    "validate_kv",
    "decide_work",
    "accepted_rows",
    "prompt_rows",
    "prompt_kv",
)


@dataclass(frozen=True)
class DecodeShape:
    """The sizes of one decode step.

    kv_lens: per sequence, committed tokens before the anchor (= anchor position). prefix_lens, emitted: per
    sequence. block_width: rows of the draft forward per sequence.
    """

    num_speculative_tokens: int
    block_width: int
    kv_lens: Sequence[int]
    prefix_lens: Sequence[int]
    emitted: Sequence[int]

    def features(self) -> dict[str, float]:
        """Return every decode feature; row r of a sequence reads kv_len + r + 1 keys."""
        batch, drafts = len(self.kv_lens), self.num_speculative_tokens
        widths = [prefix + 1 for prefix in self.prefix_lens]
        validate_kv = sum(width * kv + width * (width + 1) // 2 for kv, width in zip(self.kv_lens, widths, strict=True))
        candidates = batch * drafts
        return {
            "batch": batch,
            "block_rows": batch * self.block_width,
            "draft_kv": self.block_width * sum(kv + self.block_width for kv in self.kv_lens),
            "draft_tokens": candidates,
            "dense_rows": batch * (drafts + 1),
            "validate_rows": sum(widths),
            "validate_kv": validate_kv,
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

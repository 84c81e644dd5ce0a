"""The adaptive controller: confidence and costs -> how many drafts of each sequence to verify.

Restates xLLM's AdaptiveSpeculativeController (pull request 2231): a greedy scan over draft positions in order of
the probability that the whole prefix is accepted, taking one whenever expected tokens per millisecond improve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

_MIN_MS = 1e-6


class ValidateTimePredictor(Protocol):
    """validate ms = intercept_ms + sum over rows of (query_token_ms + query_prefix_ms x kv length)."""

    @property
    def intercept_ms(self) -> float: ...  # noqa: D102
    @property
    def query_token_ms(self) -> float: ...  # noqa: D102
    @property
    def query_prefix_ms(self) -> float: ...  # noqa: D102


@dataclass(frozen=True)
class LinearPredictor:
    """A fitted validate-time predictor; all three in milliseconds."""

    intercept_ms: float
    query_token_ms: float
    query_prefix_ms: float


@dataclass(frozen=True)
class ControllerSettings:
    """What the controller knows besides this batch. xLLM passes draft_ms = 0."""

    predictor: LinearPredictor | None = None
    draft_ms: float = 0.0
    min_gain: float = 0.0


def prefix_lengths(
    confidence: Sequence[Sequence[float]],
    kv_lens: Sequence[float],
    predictor: ValidateTimePredictor | None = None,
    draft_ms: float = 0.0,
    min_gain: float = 0.0,
) -> list[int]:
    """Return the number of drafts to verify for each sequence, 0..N.

    confidence: [batch][N], each P(draft k accepted | those before it accepted). kv_lens: [batch] tokens.
    Without a predictor a verify costs 1 ms whatever its rows.
    """
    paths = [_survival(row) for row in confidence]
    row_ms = [0.0] * len(paths)
    validate_ms = 1.0
    if predictor is not None:
        row_ms = [predictor.query_token_ms + predictor.query_prefix_ms * kv for kv in kv_lens]
        validate_ms = predictor.intercept_ms + sum(row_ms)
    chosen = [0] * len(paths)
    tokens = float(len(paths))
    draft_ms = max(draft_ms, _MIN_MS)
    gain = 1.0 + max(min_gain, 0.0)
    score = tokens / (draft_ms + max(validate_ms, _MIN_MS))
    candidates = sorted((-path, k, i) for i, row in enumerate(paths) for k, path in enumerate(row, start=1))
    for _, k, i in candidates:
        if k <= chosen[i]:
            continue
        new_tokens = tokens + sum(paths[i][chosen[i] : k])
        new_validate_ms = validate_ms + row_ms[i] * (k - chosen[i])
        new_score = new_tokens / (draft_ms + max(new_validate_ms, _MIN_MS))
        if new_score > score * gain:
            chosen[i], tokens, validate_ms, score = k, new_tokens, new_validate_ms, new_score
    return chosen


def decide(
    confidence: Sequence[Sequence[float] | None],
    kv_lens: Sequence[float],
    num_speculative_tokens: int,
    settings: ControllerSettings,
) -> list[int]:
    """Return prefix lengths for a batch in which None marks a sequence whose confidence is not fresh.

    A sequence without fresh confidence is verified at full width; the controller sees only the others.
    """
    fresh = [i for i, row in enumerate(confidence) if row is not None]
    lengths = [num_speculative_tokens] * len(confidence)
    chosen = prefix_lengths(
        [row for row in confidence if row is not None],
        [kv_lens[i] for i in fresh],
        settings.predictor,
        settings.draft_ms,
        settings.min_gain,
    )
    for i, length in zip(fresh, chosen, strict=True):
        lengths[i] = length
    return lengths


def _survival(confidence: Sequence[float]) -> list[float]:
    survival, path = 1.0, []
    for value in confidence:
        survival *= min(max(value, 0.0), 1.0)
        path.append(survival if math.isfinite(survival) else 0.0)
    return path

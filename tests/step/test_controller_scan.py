"""The scan leaves early and adds up as it goes; it must offer what the plain statement of it offers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simtool.step.controller import LinearPredictor, prefix_lengths

probabilities = st.one_of(st.floats(0, 1), st.sampled_from((0.0, 0.25, 0.5, 1.0, -1.0, 2.0, math.nan, math.inf)))
predictors = st.builds(
    LinearPredictor,
    st.sampled_from((0.0, 1e-9, 0.5, 4.3)),
    st.sampled_from((0.0, 1e-7, 0.03, 0.25, 1.0)),
    st.sampled_from((0.0, 1e-4, 1e-2)),
)


def plainly(confidence, kv_lens, predictor, draft_ms, min_gain):
    paths = []
    for row in confidence:
        path, survival = [], 1.0
        for value in row:
            survival *= min(max(value, 0.0), 1.0)
            path.append(survival if math.isfinite(survival) else 0.0)
        paths.append(path)
    rows_ms = [predictor.query_token_ms + predictor.query_prefix_ms * kv if predictor else 0.0 for kv in kv_lens]
    verify_ms = predictor.intercept_ms + sum(rows_ms) if predictor else 1.0
    chosen, tokens, draft_ms = [0] * len(paths), float(len(paths)), max(draft_ms, 1e-6)
    score = tokens / (draft_ms + max(verify_ms, 1e-6))
    for _, k, i in sorted((-path, k, i) for i, row in enumerate(paths) for k, path in enumerate(row, start=1)):
        more = tokens + sum(paths[i][chosen[i] : k])
        longer_ms = verify_ms + rows_ms[i] * (k - chosen[i])
        better = more / (draft_ms + max(longer_ms, 1e-6))
        if better > score * (1.0 + max(min_gain, 0.0)):
            chosen[i], tokens, verify_ms, score = k, more, longer_ms, better
    return chosen


@settings(max_examples=500, deadline=None)
@given(
    confidence=st.integers(1, 6).flatmap(
        lambda n: st.lists(st.lists(probabilities, min_size=n, max_size=n), min_size=1, max_size=6)
    ),
    kv=st.integers(0, 300),
    predictor=st.none() | predictors,
    draft_ms=st.sampled_from((0.0, 0.5, 3.0)),
    min_gain=st.sampled_from((-1.0, 0.0, 0.01, 0.1)),
)
def test_offers_what_the_plain_scan_offers(confidence, kv, predictor, draft_ms, min_gain):
    kv_lens = [kv + 7 * i for i in range(len(confidence))]
    found = prefix_lengths(confidence, kv_lens, predictor, draft_ms, min_gain)
    assert found == plainly(confidence, kv_lens, predictor, draft_ms, min_gain)


@pytest.mark.parametrize("batch", [9, 32, 100])
def test_a_batch_whose_sums_are_made_at_once(batch):
    """Long contexts beside short ones, ties, and sequences of which nothing is taken, at several prices."""
    rng, found = np.random.default_rng(batch), set()
    for case in range(60):
        confidence = rng.random((batch, 8)) ** rng.choice((0.1, 0.5, 2.0), (batch, 1))
        confidence = np.round(confidence * 8) / 8 if case % 2 else confidence
        kv_lens = rng.integers(1, 4000, batch).tolist()
        predictor = LinearPredictor(5.0, float(rng.choice((0.0, 0.02, 0.5))), float(rng.choice((0.0, 1e-5, 1e-4))))
        asked = (confidence.tolist(), kv_lens, predictor, float(rng.choice((0.0, 3.0))), float(rng.choice((0.0, 0.01))))
        lengths = prefix_lengths(*asked)
        assert lengths == plainly(*asked)
        found.update(lengths)
    assert found == set(range(9))

"""Loss by lag and how long a confidence lasts, on numbers that can be checked by hand."""

from pathlib import Path

import numpy as np
import pytest

from simtool.analysis.staleness import ALL, persistence, staleness_by_lag
from simtool.calibrate.drafted import DraftedBlocks
from simtool.errors import TraceError
from simtool.trace.frames import make_frame
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace
from tests.replay.synthetic import Work, source_trace


def run_of(manifest, steps):
    """steps: request -> (prefix, accepted) of each decode step. Requests named p... are prose, others code."""
    rows = [(name, i, *pair) for name, pairs in steps.items() for i, pair in enumerate(pairs)]
    names = list(steps)
    ones = [1] * len(names)
    requests = {
        "request_id": names,
        "arrival_ns": ones,
        "finished_ns": ones,
        "prompt_tokens": ones,
        "output_tokens": ones,
        "max_new_tokens": ones,
        "kind": ["prose" if name.startswith("p") else "code" for name in names],
    }
    table = {
        "step": [i for _, i, _, _ in rows],
        "request_id": [name for name, _, _, _ in rows],
        "slot": [0] * len(rows),
        "anchor_position": [i for _, i, _, _ in rows],
        "kv_len": [i for _, i, _, _ in rows],
        "prefix_len": [prefix for _, _, prefix, _ in rows],
        "accepted": [accepted for _, _, _, accepted in rows],
        "emitted": [accepted + 1 for _, _, _, accepted in rows],
        "fresh": [i > 0 for _, i, _, _ in rows],
    }
    frames = {"requests": make_frame(TABLES["requests"], requests), "rows": make_frame(TABLES["rows"], table)}
    return Trace(Path("run"), manifest, frames)


@pytest.fixture
def manifest(tmp_path):
    return source_trace(tmp_path / "source", Work(2, (), {("x", 1): ([0.5, 0.5], 0)})).manifest


def test_loss_is_counted_in_steps(manifest):
    """Prose takes 2 steps at lag 0 and 4 at lag 1, code 2 and 2: half lost, nothing lost, a third over all."""
    fresh = run_of(manifest, {"p": [(2, 2), (1, 0)], "c": [(2, 1), (2, 1)]})
    lagged = run_of(manifest, {"p": [(0, 0)] * 4, "c": [(2, 1), (1, 1)]})
    found = {(effect.lag, effect.kind): effect for effect in staleness_by_lag({0: fresh, 1: lagged})}
    assert found[1, "prose"].loss.mean == 0.5
    assert found[1, "code"].loss.mean == 0
    assert found[1, ALL].loss.mean == pytest.approx(1 - 4 / 6)
    assert found[1, ALL].loss.contains(found[1, ALL].loss.mean)
    assert (found[0, ALL].loss.mean, found[0, ALL].loss.bounds) == (0, (0, 0))
    assert (found[0, "prose"].offered_at, found[0, "prose"].accepted_at) == ((2, 1), (1, 1))
    assert found[0, "prose"].acceptance_rate == pytest.approx(2 / 3)
    assert found[1, "prose"].acceptance_rate is None
    assert found[0, "code"].acceptance_length == 2
    assert found[1, ALL].unfresh == 2


def test_lag_zero_must_be_there(manifest):
    with pytest.raises(TraceError, match="without lag 0"):
        staleness_by_lag({1: run_of(manifest, {"p": [(0, 0)]})})


def test_persistence_stays_inside_a_request():
    """A wave of period two: opposite one step apart, alike two steps apart; the pair across requests is left out."""
    confidence = np.array([[0.9], [0.1], [0.9], [0.1], [0.1], [0.9], [0.1], [0.9]])
    runs = (confidence[:, 0] > 0.5).astype(np.int64)
    blocks = DraftedBlocks(confidence, runs, np.ones(8, np.int64), np.repeat([0, 1], 4))
    one, two = persistence(blocks, 1), persistence(blocks, 2)
    assert (one.pairs, two.pairs) == (6, 4)
    assert one.correlation == pytest.approx(-1)
    assert two.correlation == pytest.approx(1)
    assert (one.auc, two.auc) == ((0.0,), (1.0,))
    assert two.by_position[0] == pytest.approx(1)

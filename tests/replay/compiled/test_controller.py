"""The compiled controller against the one that is read: the same choice in every case, ties and broken numbers too."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simtool.replay.compiled.controller import choose, fill_paths, make_bench, make_rules
from simtool.step.controller import ControllerSettings, LinearPredictor, prefix_lengths, survival

CASES = (Path(__file__).parents[2] / "data" / "controller_cases.jsonl").read_text().splitlines()
ODD = (0.0, -0.0, 1.0, 0.5, 0.25, -1.0, 2.0, math.inf, -math.inf, math.nan)


def compiled(confidence: np.ndarray, kv_lens: list[float], controller: ControllerSettings) -> list[int]:
    bench = make_bench(*confidence.shape)
    for i in range(len(confidence)):
        fill_paths(bench, i, confidence.astype(np.float64), i)
    assert np.array_equal(bench.paths, survival(confidence))
    bench.kv_lens[:] = kv_lens
    choose(make_rules(controller), bench, len(confidence))
    return [int(length) for length in bench.chosen]


def plain(confidence: np.ndarray, kv_lens: list[float], controller: ControllerSettings) -> list[int]:
    rows = confidence.astype(np.float64).tolist()
    return prefix_lengths(rows, kv_lens, controller.predictor, controller.draft_ms, controller.min_gain)


@pytest.mark.parametrize("line", CASES, ids=range(len(CASES)))
def test_shared_case(line: str) -> None:
    case = json.loads(line)
    predictor = case["predictor"] and LinearPredictor(**case["predictor"])
    controller = ControllerSettings(predictor, case["full_draft_time_ms"], case["min_gain"])
    confidence = np.array(case["probs"], np.float32)
    assert compiled(confidence, case["kv_lens"], controller) == plain(confidence, case["kv_lens"], controller)


def test_ten_thousand_drawn_cases() -> None:
    """Fine and coarse confidences (ties in plenty), equal rows, zeros, and now and then a number that is none."""
    rng = np.random.default_rng(5)
    lengths = set()
    for _ in range(10_000):
        batch, drafts = int(rng.choice((1, 2, 3, 5, 8, 33))), int(rng.integers(1, 8))
        confidence = rng.random((batch, drafts)) ** rng.choice((0.2, 1.0))
        if rng.random() < 0.5:
            confidence = np.round(confidence * 4) / 4
        if rng.random() < 0.2:
            confidence[:] = confidence[0]
        odd = rng.random((batch, drafts)) < rng.choice((0.0, 0.1))
        confidence = np.where(odd, rng.choice(ODD, (batch, drafts)), confidence).astype(np.float32)
        kv_lens = [float(kv) for kv in rng.integers(0, 5000, batch)]
        predictor = LinearPredictor(rng.random() * 5, float(rng.choice((0.0, 0.25, rng.random()))), rng.random() * 1e-3)
        controller = ControllerSettings(
            predictor if rng.random() < 0.9 else None,
            float(rng.choice((0.0, 0.5, rng.random()))),
            float(rng.choice((0.0, 0.05, -1.0))),
        )
        expected = plain(confidence, kv_lens, controller)
        assert compiled(confidence, kv_lens, controller) == expected
        lengths.update(expected)
    assert lengths == set(range(8))


@settings(max_examples=300, deadline=None)
@given(
    rows=st.integers(1, 5).flatmap(
        lambda n: st.lists(st.lists(st.floats(width=32), min_size=n, max_size=n), min_size=1, max_size=5)
    ),
    terms=st.tuples(*[st.floats(0, 1e6)] * 3),
    draft_ms=st.floats(-1e6, 1e6),
    min_gain=st.floats(-1e12, 1e12),
)
def test_any_numbers_at_all(
    rows: list[list[float]], terms: tuple[float, float, float], draft_ms: float, min_gain: float
) -> None:
    confidence, kv_lens = np.array(rows, np.float32), [float(3 * i) for i in range(len(rows))]
    controller = ControllerSettings(LinearPredictor(*terms), draft_ms, min_gain)
    assert compiled(confidence, kv_lens, controller) == plain(confidence, kv_lens, controller)

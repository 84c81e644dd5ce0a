import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simtool.step.controller import ControllerSettings, LinearPredictor, decide, prefix_lengths

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "controller_cases.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_golden_case(case):
    predictor = case["predictor"] and SimpleNamespace(**case["predictor"])
    chosen = prefix_lengths(
        case["probs"], case["kv_lens"], predictor, draft_ms=case["full_draft_time_ms"], min_gain=case["min_gain"]
    )
    assert chosen == case["prefix_lengths"]


def test_without_a_predictor_rows_are_free_so_everything_is_offered():
    assert prefix_lengths([[0.5, 0.5], [0.01, 0.9]], [10, 10]) == [2, 2]


def test_a_row_that_costs_more_than_it_brings_is_left_out():
    # one row costs 1 ms of 2: a draft must bring more than half of the tokens there are already
    predictor = LinearPredictor(intercept_ms=1.0, query_token_ms=1.0, query_prefix_ms=0.0)
    assert prefix_lengths([[0.6, 0.1]], [0], predictor) == [1]
    assert prefix_lengths([[0.4, 0.9]], [0], predictor) == [0]


def test_a_refused_candidate_does_not_end_the_scan():
    # the long context's first draft is the likelier one, but it costs ten times as much
    predictor = LinearPredictor(intercept_ms=1.0, query_token_ms=0.0, query_prefix_ms=1.0)
    assert prefix_lengths([[0.95], [0.9]], [10.0, 0.1], predictor) == [0, 1]


def test_ties_go_to_the_shorter_prefix_and_then_to_the_earlier_sequence():
    predictor = LinearPredictor(intercept_ms=1.0, query_token_ms=0.31, query_prefix_ms=0.0)
    chosen = prefix_lengths([[0.5], [0.5], [0.5]], [0, 0, 0], predictor)
    assert chosen == sorted(chosen, reverse=True)


def test_values_outside_a_probability_are_clamped_and_nan_counts_nothing():
    assert prefix_lengths([[2.0, -1.0]], [0]) == [1]
    assert prefix_lengths([[math.nan, 0.9]], [0]) == [0]


def test_a_sequence_without_fresh_confidence_is_verified_at_full_width():
    settings = ControllerSettings(LinearPredictor(1.0, 1.0, 0.0))
    assert decide([None, [0.1, 0.1, 0.1]], [5, 5], 3, settings) == [3, 0]
    assert decide([None, None], [5, 5], 3, settings) == [3, 3]


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(st.lists(st.floats(0, 1), min_size=n, max_size=n), min_size=1, max_size=6)
    ),
    st.floats(0.1, 10),
    st.floats(0, 2),
)
def test_more_costly_rows_never_lengthen_a_single_prefix(confidence, intercept_ms, token_ms):
    row = confidence[:1]
    cheap = prefix_lengths(row, [0], LinearPredictor(intercept_ms, token_ms, 0.0))
    dear = prefix_lengths(row, [0], LinearPredictor(intercept_ms, token_ms * 2, 0.0))
    assert 0 <= dear[0] <= cheap[0] <= len(row[0])

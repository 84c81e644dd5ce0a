"""Budgets by hand: two drafts, a clock of one unit a row, and a staircase that stops a strict scan."""

import math

import numpy as np
import pytest
from published_runs import budgets
from published_runs.prediction import Prediction, Verdict, gain
from published_runs.tables import Spread

HALVES = (0.5, 0.25)


def test_tokens_by_position_and_by_outcome():
    """Two requests, two drafts: 0.5 each for the first two, 0.25 for the others; knowing all, a token a row."""
    assert budgets.tokens_by_budget(HALVES, 2, 0.0) == pytest.approx([2, 2.5, 3, 3.25, 3.5])
    assert budgets.tokens_by_budget(HALVES, 2, 1.0) == pytest.approx([2, 3, 3.5, 3.5, 3.5])


def test_a_confidence_lies_between_knowing_nothing_and_knowing_all():
    blind, some, all_ = (budgets.tokens_by_budget((0.7, 0.5, 0.4), 8, sharp) for sharp in (0.0, 0.5, 1.0))
    inside = slice(1, -1)
    assert (some[inside] > blind[inside] - 0.01).all()
    assert (some[inside] < all_[inside] + 1e-9).all()
    assert some[-1] == pytest.approx(blind[-1])


def test_the_best_budget_by_hand():
    """At 1 ms and 0.2 a row rates are 2/1.4, 2.5/1.6, 3/1.8, 3.25/2, 3.5/2.2: the third is best."""
    found = budgets.best(np.array([2, 2.5, 3, 3.25, 3.5]), 2, lambda rows: 1 + 0.2 * rows)
    assert (found.drafts, found.tokens) == (2, 3)
    assert found.ms == pytest.approx(1.8)


def test_a_strict_stop_ends_on_a_stair():
    """A graph of 2 rows takes 1 ms, one of 8 takes 2: the first draft halves the rate, four would double the tokens."""
    clock = budgets.stairs({2: 1.0, 8: 2.0})
    tokens = np.array([2.0, 3.0, 4.0, 5.0, 6.0])
    assert budgets.strict_stop(tokens, 2, clock).drafts == 0
    assert budgets.best(tokens, 2, clock).drafts == 4
    with pytest.raises(ValueError, match="the largest graph holds 8"):
        clock(9)


def test_lines_and_rows():
    clock = budgets.line((10, 2.0), (20, 3.0))
    assert clock(15) == pytest.approx(2.5)
    assert budgets.rows_for(np.array([2, 2.5, 3.0]), 2, 2.75) == pytest.approx(3.5)


def predicted(**other):
    given = {"source": "s", "setting": "", "figure": "", "low": 0.0, "high": 0.1, "published": 0.2, "spread": None}
    return Prediction(**{**given, **other})


def test_an_interval_by_hand():
    """One run each at a spread of 10 %: 1.2 times or over e^(1.96 sqrt(2) 0.1) = 1.3194."""
    low, high = predicted().interval(0.1)
    factor = math.exp(1.959963984540054 * math.sqrt(2) * 0.1)
    assert factor == pytest.approx(1.3194, abs=1e-4)
    assert (low, high) == (pytest.approx(1.2 / factor - 1), pytest.approx(1.2 * factor - 1))
    assert predicted(gain=False, published=2.0).interval(0.1)[1] == pytest.approx(2 * math.exp(0.1959964), abs=1e-6)


@pytest.mark.parametrize(
    ("other", "verdict", "sign"),
    [
        ({"published": 0.05}, Verdict.INSIDE, True),
        ({"published": -0.05}, Verdict.OUTSIDE, False),
        ({"low": -0.1}, Verdict.OUTSIDE, None),
        ({"spread": Spread(0.05, 0.1)}, Verdict.COVERED, True),
        ({"spread": Spread(0.01, 0.1)}, Verdict.WIDE_ONLY, True),
        ({"spread": Spread(0.001, 0.002)}, Verdict.MISSED, True),
        ({"gain": False}, Verdict.OUTSIDE, None),
    ],
)
def test_verdicts(other, verdict, sign):
    found = predicted(**other)
    assert (found.verdict, found.sign_holds) == (verdict, sign)


def test_a_gain():
    assert gain(1109, 985) == pytest.approx(0.1259, abs=1e-4)

"""The fit: slopes that outliers do not tilt, means that they still move, nothing below zero."""

import random

import numpy as np
import pytest

from simtool.calibrate.regression import fit_cost, quartiles
from tests.calibrate.observing import observed


def test_recovers_a_line():
    rows = list(range(1, 101))
    cost = fit_cost(observed([1_000 + 7 * n for n in rows], rows=rows), ("rows",))
    assert cost.intercept_ns == pytest.approx(1_000)
    assert cost.per_feature_ns["rows"] == pytest.approx(7)
    assert cost.ranges == {"rows": (1, 100)}
    assert cost.quality.r2 == pytest.approx(1.0)
    assert cost.quality.held_out_error == pytest.approx(0.0, abs=1e-9)
    assert set(cost.residuals_ns) == {0}


def test_outliers_move_the_mean_and_not_the_slope():
    """Two preempted ops among the largest: least squares alone would make a row look twice as dear."""
    draw = random.Random(1)
    rows = [1 + i % 20 for i in range(400)]
    values = [1_000 + 10 * n + draw.randrange(-5, 6) for n in rows]
    values[39] += 500_000
    values[59] += 500_000
    cost = fit_cost(observed(values, rows=rows), ("rows",))
    assert cost.per_feature_ns["rows"] == pytest.approx(10, rel=0.05)
    predicted = [cost.predict({"rows": n}) for n in rows]
    assert np.mean(predicted) == pytest.approx(np.mean(values))
    assert max(cost.residuals_ns) > 490_000


def test_a_falling_line_has_no_negative_slope():
    rows = list(range(1, 51))
    cost = fit_cost(observed([1_000 - 5 * n for n in rows], rows=rows), ("rows",))
    assert cost.per_feature_ns == {}
    assert cost.intercept_ns == pytest.approx(np.mean([1_000 - 5 * n for n in rows]))


def test_a_feature_that_never_varies_stays_in_the_intercept():
    cost = fit_cost(observed([500] * 40, batch=[4] * 40), ("batch",))
    assert (cost.intercept_ns, dict(cost.per_feature_ns)) == (500, {})
    assert cost.ranges == {"batch": (4, 4)}
    assert cost.quality.r2 is None


def test_features_of_very_different_size():
    draw = random.Random(2)
    rows = [draw.randrange(1, 20) for _ in range(200)]
    keys = [n * draw.randrange(10, 10_000) for n in rows]
    values = [round(100 + 50 * n + 0.25 * k) for n, k in zip(rows, keys, strict=True)]
    cost = fit_cost(observed(values, rows=rows, keys=keys), ("rows", "keys"))
    assert cost.per_feature_ns["rows"] == pytest.approx(50, rel=1e-2)
    assert cost.per_feature_ns["keys"] == pytest.approx(0.25, rel=1e-3)


def test_an_offset_may_be_negative():
    cost = fit_cost(observed([-30, -10, -20]), ())
    assert cost.intercept_ns == -20
    assert cost.residuals_ns == (-10, 10, 0)


def test_held_out_error_sees_what_the_fit_cannot():
    """Every second block of 16 is twice as slow: a fit on the others is off by half of what it is judged on."""
    values = [1_000 if i // 16 % 2 == 0 else 2_000 for i in range(320)]
    quality = fit_cost(observed(values), ()).quality
    assert quality.held_out_error == pytest.approx(0.5)
    assert quality.held_out_bias == pytest.approx(0.5)


def test_too_few_to_hold_out():
    quality = fit_cost(observed([5, 6, 7]), ()).quality
    assert (quality.n, quality.held_out_error, quality.held_out_bias) == (3, None, None)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 161, 1000])
def test_quartiles_are_those_of_numpy(count):
    values = np.random.default_rng(count).normal(size=count) * 1e6
    assert quartiles(values) == tuple(np.quantile(values, (0.25, 0.75)))
    assert quartiles(np.zeros(count)) == (0, 0)

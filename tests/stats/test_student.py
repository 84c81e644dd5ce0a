"""The t intervals against scipy's own, and the one Interval."""

import math

import numpy as np
import pytest
from scipy import stats

from simtool.stats.interval import LEVEL, Interval
from simtool.stats.repetitions import repetitions_needed
from simtool.stats.student import known_mean_interval, mean_interval, ratio_interval, relative_change, welch_interval

VALUES = [1.0, 2.5, 3.0, 7.25]


def test_the_mean_has_scipys_interval():
    found = mean_interval(VALUES)
    expected = stats.ttest_1samp(VALUES, 0).confidence_interval(LEVEL)
    assert found.bounds == pytest.approx((expected.low, expected.high))
    assert found.mean == np.mean(VALUES)


def test_one_value_has_no_interval():
    found = mean_interval([3.0])
    assert (found.mean, found.bounds, found.half, found.side()) == (3.0, None, None, 0)
    assert not found.contains(3.0)
    assert found.text(str) == "-"


def test_a_draw_more_is_wider_than_the_mean_by_its_own_spread():
    one, mean = mean_interval(VALUES, draws=True).half, mean_interval(VALUES).half
    assert one is not None
    assert mean is not None
    assert one == pytest.approx(mean * math.sqrt(5))


def test_welch_is_scipys():
    first, second = VALUES, [4.0, 4.5, 9.0]
    expected = stats.ttest_ind(second, first, equal_var=False).confidence_interval(LEVEL)
    assert welch_interval(first, second).bounds == pytest.approx((expected.low, expected.high))
    assert welch_interval(second, first).bounds == pytest.approx((-expected.high, -expected.low))


def test_unknown_values_have_no_interval():
    assert known_mean_interval([1.0, None]) is None
    assert known_mean_interval([1.0]) is None
    assert relative_change([1.0, 2.0], [1.1, None]) is None
    there, back = relative_change([1.0, 2.0], [1.1, 2.3]), relative_change([1.1, 2.3], [1.0, 2.0])
    assert there is not None
    assert back is not None
    assert (1 + there.mean) * (1 + back.mean) == pytest.approx(1)
    assert there.mean == pytest.approx((1.1 * 1.15) ** 0.5 - 1)


def test_a_ratio_of_sums_covers():
    """Requests of very different size: 95 % of the intervals hold the true ratio, give or take three deviations."""
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(2000):
        size = rng.gamma(4, 10, 40)
        hits += ratio_interval(size * rng.normal(0.9, 0.1, 40), size).contains(0.9)
    assert 0.93 < hits / 2000 < 0.97


def test_an_interval_maps_and_has_sides():
    found = Interval.around(0.1, 0.05, "t").mapped(math.exp)
    assert found.bounds == pytest.approx((math.exp(0.05), math.exp(0.15)))
    assert (found.side(1.0), found.side(1.1), found.side(2.0)) == (1, 0, -1)
    assert found.contains(found.mean)
    assert found.because("why").method == "why"


def test_repetitions_needed_is_the_first_that_tells():
    needed = repetitions_needed(0.02, 0.05)
    assert needed is not None
    halves = [stats.t.ppf(0.975, n - 1) * 0.05 / math.sqrt(n) for n in (needed - 1, needed)]
    assert halves[1] < 0.02 <= halves[0]
    assert repetitions_needed(1e-6, 1.0) is None

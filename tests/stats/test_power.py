"""A plan tells its effect as often as it says, by simulation."""

import numpy as np
import pytest

from simtool.stats.power import paired_repetitions, unpaired_repetitions
from simtool.stats.student import mean_interval, welch_interval


@pytest.mark.parametrize(("effect", "deviation"), [(0.01, 0.01), (0.02, 0.05)])
def test_pairs_tell_as_often_as_planned(effect, deviation):
    count = paired_repetitions(effect, deviation, 0.8)
    assert count is not None
    rng = np.random.default_rng(1)
    told = [mean_interval(list(rng.normal(effect, deviation, count))).side() for _ in range(1500)]
    assert 0.77 < sum(side > 0 for side in told) / 1500 < 0.87  # the fewest that reach 80 %, three deviations allowed
    fewer = [mean_interval(list(rng.normal(effect, deviation, count - 1))).side() for _ in range(1500)]
    assert sum(side > 0 for side in fewer) / 1500 < 0.83


def test_unpaired_runs_tell_as_often_as_planned():
    count = unpaired_repetitions(0.02, (0.01, 0.03), 0.9)
    assert count is not None
    rng = np.random.default_rng(2)
    told = [
        welch_interval(list(rng.normal(0, 0.01, count)), list(rng.normal(0.02, 0.03, count))).side()
        for _ in range(1500)
    ]
    assert 0.87 < sum(side > 0 for side in told) / 1500 < 0.95


def test_a_huge_effect_takes_two_and_a_tiny_one_more_than_anybody_plans():
    assert paired_repetitions(1.0, 1e-6) == 2
    assert paired_repetitions(1e-6, 1.0) is None
    assert unpaired_repetitions(1e-6, (1.0, 1.0)) is None
    assert unpaired_repetitions(-0.02, (0.01, 0.03)) == unpaired_repetitions(0.02, (0.03, 0.01))

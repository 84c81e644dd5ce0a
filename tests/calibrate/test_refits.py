"""How uncertain a fit is: refits to resampled steps, and what becomes of them when a cost is changed."""

import numpy as np
import pytest

from simtool.calibrate.bootstrap import resamples
from simtool.calibrate.regression import fit_cost
from simtool.profile.cost import Cost, Line
from tests.calibrate.observing import observed


def grown(noise, count=400, seed=1):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, count)
    values = [int(1_000 + 50 * size + noise * rng.normal()) for size in sizes]
    return observed(values, range(0, 10 * count, 10), batch=sizes)


def test_resamples_are_blocks_of_steps():
    runs = [np.arange(0, 640, 10), np.arange(5, 645, 10)]
    found = resamples(runs, 3)
    assert [int(each.counts.sum()) for each in found] == [128] * 3
    assert found[0].counts.tolist() != found[1].counts.tolist()
    changes = np.flatnonzero(np.diff(found[0].counts)).size
    assert changes <= 2 * 4 + 1  # four blocks of two runs' 16 steps
    assert resamples(runs, 0) == []
    assert resamples(runs, 3)[2].counts.tolist() == found[2].counts.tolist()


def test_the_spread_of_refits_is_the_error_of_the_fit():
    """Of a constant with independent noise the refits spread as the mean does: sigma / sqrt(n)."""
    seen = grown(100.0)
    values = observed(seen.value_ns - (50 * seen.column("batch")).astype(int), seen.start_ns)
    draws = resamples([values.start_ns], 200)
    lines = fit_cost(values, (), draws).refits
    spread = np.std([line.intercept_ns for line in lines])
    assert spread == pytest.approx(100 / 400**0.5, rel=0.3)
    exact = fit_cost(grown(0.0), ("batch",), draws)
    assert all(line.per_feature_ns["batch"] == pytest.approx(50, rel=1e-3) for line in exact.refits)


def test_what_a_resample_lacks_keeps_its_cost():
    values = observed([7], [990])
    draws = resamples([np.arange(0, 1_000, 10)], 20)
    assert {line.intercept_ns for line in fit_cost(values, (), draws).refits} == {7.0}


def test_refits_follow_a_change_and_survive_the_file():
    cost = Cost(10.0, {"batch": 2.0}, refits=(Line(11.0, {"batch": 1.5}), Line(9.0)))
    assert cost.scaled(2).refits == (Line(22.0, {"batch": 3.0}), Line(18.0))
    assert cost.shifted(-1).refits[1] == Line(8.0)
    assert cost.refitted(0).predict({"batch": 4.0}) == 17.0
    assert Cost(10.0).refitted(3) == Cost(10.0)
    read = Cost.from_dict(cost.to_dict(), "x")
    assert [line.intercept_ns for line in read.refits] == [11.0, 9.0]
    assert read.refitted(1).predict({"batch": 4.0}) == 9.0
    older = {key: value for key, value in cost.to_dict().items() if key != "refits"}
    assert Cost.from_dict(older, "x").refits == ()

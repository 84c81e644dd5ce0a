"""What says 95 % holds the truth 93 to 97 times of 100, or says that it cannot tell.

The bands are 93 to 97 % and three deviations of the counting itself. The whole
table: `benchmarks/interval_coverage.py`.
"""

import math

import numpy as np
import polars as pl
import pytest

from simtool.stats.series import log_interval, mean_influence, ratio_influence
from simtool.trace.trace import open_trace
from tests.stats.processes import LIVE, ar1, resampled

REPLICATIONS = 1500
BLOCK = 20
LOW, HIGH = 0.93, 0.97


def _inside(covered: int, of: int) -> bool:
    slack = 3 * math.sqrt(0.05 * 0.95 / of)
    return LOW - slack < covered / of < HIGH + slack


def _outcomes(series, truth: float = 0.0) -> tuple[int, int]:
    """How many series got an interval, and how many of those hold the truth."""
    found = [log_interval(float(x.mean()), x) for x in series]
    given = [each for each in found if each.bounds is not None]
    return len(given), sum(each.contains(truth) for each in given)


@pytest.mark.parametrize(("correlation", "steps"), [(0.0, 60), (0.0, 400), (0.6, 150), (0.6, 400), (0.9, 1000)])
def test_correlated_steps_are_covered(correlation, steps):
    given, covered = _outcomes(ar1(np.random.default_rng(1), correlation, (REPLICATIONS, steps)))
    assert given > 0.9 * REPLICATIONS
    assert _inside(covered, given)


@pytest.mark.parametrize(("correlation", "steps"), [(0.0, 12), (0.9, 12), (0.9, 110), (0.97, 110), (0.6, 40)])
def test_too_little_to_tell_is_said_and_seldom_wrong(correlation, steps):
    """Short or slow series: few get an interval, and of all of them at most one in twenty a wrong one."""
    given, covered = _outcomes(ar1(np.random.default_rng(2), correlation, (REPLICATIONS, steps)))
    assert given < 0.3 * REPLICATIONS
    assert given - covered < REPLICATIONS * 0.07


def test_steps_of_shipped_live_runs_are_covered():
    """Pseudo-runs of one arm: blocks of a recorded run's steps, so that what they truly are is known.

    Of runs of four blocks and more: drawn from less, every pseudo-run repeats the whole run and has its very mean.
    """
    rng = np.random.default_rng(3)
    given = covered = runs = 0
    for path in LIVE:
        steps = open_trace(path).table("steps").filter(pl.col("kind") == "decode")
        full = steps.filter(pl.col("batch") == pl.col("batch").max())
        logs = np.log((full["end_ns"] - full["start_ns"]).to_numpy())
        if len(logs) < 4 * BLOCK:
            continue
        found = _outcomes(resampled(rng, logs - logs.mean(), (150, 200), BLOCK))
        given, covered, runs = given + found[0], covered + found[1], runs + 1
    assert runs >= 5
    assert given > 0.9 * 150 * runs
    assert _inside(covered, given)


def test_the_difference_of_two_runs_is_covered():
    rng = np.random.default_rng(4)
    pairs = zip(ar1(rng, 0.6, (800, 250)), ar1(rng, 0.3, (800, 180)), strict=True)
    found = [log_interval(float(two.mean() - one.mean()), one, two) for one, two in pairs]
    assert all(each.bounds for each in found)
    assert _inside(sum(each.contains(0.0) for each in found), len(found))


def test_throughput_is_covered_in_its_own_unit():
    """Tokens and durations that hang together: the log of their ratio."""
    rng = np.random.default_rng(5)
    hits = 0
    for wave in ar1(rng, 0.6, (800, 300)):
        tokens = rng.poisson(20, 300) + 1
        duration = (5 + 0.1 * tokens) * (1 + 0.05 * wave)
        truth = math.log(21 / 7.1)
        found = log_interval(math.log(tokens.sum() / duration.sum()), ratio_influence(tokens, duration))
        hits += found.contains(truth)
    assert _inside(hits, 800)


def test_a_run_of_few_steps_has_no_interval():
    found = log_interval(0.1, mean_influence([1.0, 2.0, 3.0]))
    assert (found.mean, found.bounds) == (0.1, None)
    assert found.method == "3 steps, and fewer than 50 tell too little of their spread"


def test_a_slow_run_says_how_little_it_is_worth():
    slow = np.cumsum(np.random.default_rng(6).standard_normal(200))
    found = log_interval(0.1, slow)
    assert found.bounds is None
    assert "200 steps resemble their neighbours so much that they are worth" in found.method

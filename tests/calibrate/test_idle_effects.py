"""What ran just before: fitted where a recording tells it from the sizes, shared where works have it in common."""

import random

import pytest

from simtool.calibrate.idle_effects import shared_slope, told_apart
from simtool.calibrate.regression import fit_cost
from simtool.step.idle_effects import DEVICE_IDLE, HOST_IDLE, LastWait, LastWork, idle_doublings
from tests.calibrate.observing import observed


def test_idle_time_counts_doublings_of_a_tenth_of_a_millisecond():
    assert [idle_doublings(time_ns) for time_ns in (0, 100_000, 300_000, 700_000)] == [0, 1, 2, 3]


def test_the_past_of_an_executor_is_its_last_work():
    assert LastWork().doublings_behind() == LastWork().doublings_at(900) == 0
    past = LastWork(1_000_000, 1_100_000)
    assert past.doublings_behind() == 1
    assert past.doublings_at(1_300_000) == 2
    assert LastWait(300_000).doublings == 2


def after_waits(rows_and_waits, cost):
    rows, waits = zip(*rows_and_waits, strict=True)
    return observed([cost(*each) for each in rows_and_waits], rows=rows, **{HOST_IDLE: waits})


def test_a_wait_that_only_follows_the_rows_is_left_to_the_rows():
    """Else its slope would be the rows', and be wrong where more rows are not waited for longer."""
    draw = random.Random(0)
    rows = [draw.randrange(1, 9) for _ in range(200)]
    alike = after_waits([(n, 2 + n / 4 + draw.random() / 2) for n in rows], lambda n, _: 100 * n)
    assert not told_apart(alike, ("rows",), HOST_IDLE)
    apart = after_waits([(n, draw.choice((1.0, 6.0))) for n in rows], lambda n, wait: round(100 * n + 50 * wait))
    assert told_apart(apart, ("rows",), HOST_IDLE)
    few = after_waits([(n, 1.0 + 5.0 * (n % 2)) for n in rows[:20]], lambda n, wait: round(100 * n + 50 * wait))
    assert not told_apart(few, ("rows",), HOST_IDLE)
    cost = fit_cost(apart, ("rows", HOST_IDLE))
    assert cost.per_feature_ns == {"rows": pytest.approx(100), HOST_IDLE: pytest.approx(50)}
    assert set(cost.ranges) == {"rows"}


def test_groups_share_a_slope_and_keep_their_own_constants():
    draw = random.Random(1)
    groups = []
    for base, seen in ((1_000, (0.2, 4.0)), (5_000, (3.0,)), (300, (0.5, 5.0))):
        pasts = [draw.choice(seen) for _ in range(60)]
        groups.append(observed([round(base + 20 * x) for x in pasts], **{DEVICE_IDLE: pasts}))
    slope = shared_slope(groups, DEVICE_IDLE)
    assert slope == pytest.approx(20, rel=0.01)
    constants = [fit_cost(group.without(DEVICE_IDLE, slope), ()).intercept_ns for group in groups]
    assert constants == pytest.approx([1_000, 5_000, 300], rel=0.01)
    assert shared_slope(groups[1:2], DEVICE_IDLE) == 0
    assert shared_slope([], DEVICE_IDLE) == 0
    assert fit_cost(groups[1], ()).growing(DEVICE_IDLE, 0.0).per_feature_ns == {}

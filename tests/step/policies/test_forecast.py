"""Our policy: what it learns of survival, and that it spends time where it is worth it."""

from __future__ import annotations

import numpy as np
import pytest

from simtool.step.policies.forecast import ForecastSurvival
from simtool.step.step_table import StepTable
from tests.step.policies.views import conditional, line, view


def run(policy: ForecastSurvival, rows_by_step, table, accepted=0):
    """Decisions of a run in which every sequence's survival moves as given: [steps][batch][N]."""
    decider, lengths = policy.start(), []
    for before in rows_by_step:
        step = view({1: [conditional(row) for row in before], 0: [[0.5] * len(before[0])] * len(before)}, table=table)
        lengths.append(decider.decide(step))
        decider.learn(step, lengths[-1], [min(accepted, length) for length in lengths[-1]])
    return lengths, decider


def test_a_sequence_that_alternates_is_foreseen():
    """A sure block follows a hopeless one and the other way round: last step's survival gets each one wrong."""
    sure, hopeless = [0.98, 0.95, 0.93], [0.05, 0.02, 0.01]
    steps = [[sure, hopeless] if t % 2 else [hopeless, sure] for t in range(60)]
    stale, _ = run(ForecastSurvival(forecast=False), steps, line(0.2, base_ms=1.0))
    foreseen, _ = run(ForecastSurvival(prior=0.5), steps, line(0.2, base_ms=1.0))
    assert stale[-1] == [3, 0]  # what it was
    assert foreseen[-1] == [0, 3]  # what it will be


def test_a_steady_sequence_is_left_as_it_is():
    steady = [[[0.9, 0.8, 0.7], [0.1, 0.05, 0.01]]] * 30
    foreseen, decider = run(ForecastSurvival(), steady, line(0.2, base_ms=1.0))
    assert foreseen[-1] == [3, 0]
    assert decider.counters["cold_rows"] == 0


def test_a_new_sequence_counts_as_the_others_did():
    policy = ForecastSurvival().start()
    table = line(0.3, base_ms=1.0)
    for _ in range(20):
        step = view({1: [conditional([0.9, 0.1, 0.05])] * 2}, table=table)
        policy.learn(step, policy.decide(step), [1, 1])
    fresh = view({1: [conditional([0.9, 0.1, 0.05]), None]}, table=table)
    assert policy.decide(fresh) == [1, 1]
    assert policy.counters["cold_rows"] == 1


def test_a_poor_step_is_kept_short_where_time_is_worth_more():
    """Good steps bring 8 tokens in 1 + 8 x 0.1 ms, so a row of 0.1 ms is worth 0.44 tokens.

    In a poor step drafts of 0.3 still raise the step's own rate, (1 + 0.3) / 1.2 > 1 / 1.1, and not that of the run.
    """
    good, poor = [[0.99] * 7], [[0.3, 0.05, 0.04, 0.03, 0.02, 0.01, 0.0]]
    table = line(0.1, base_ms=1.0)
    steps = [good] * 40 + [poor]
    by_worth, _ = run(ForecastSurvival(forecast=False), steps, table, accepted=7)
    by_ratio, _ = run(ForecastSurvival(forecast=False, objective="ratio"), steps, table, accepted=7)
    assert by_worth[0] == by_ratio[0] == [7]
    assert by_ratio[-1] == [1]
    assert by_worth[-1] == [0]


def test_a_step_that_cuts_nothing_is_taken_where_it_is_cheaper():
    """Cutting one draft of three saves 0.1 ms of rows and costs 0.5 ms of cutting."""
    plain = StepTable((1,), (1.0,), (0, 4), (0.0, 0.4))
    dense = StepTable((1,), (1.0,), (0, 4), (0.0, 0.4), full_ms=(-0.5,))
    doubtful = [[[0.9, 0.8, 0.01]]] * 3
    assert run(ForecastSurvival(), doubtful, plain)[0][-1] == [2]
    assert run(ForecastSurvival(), doubtful, dense)[0][-1] == [3]


def test_the_split_may_be_this_steps():
    decider = ForecastSurvival(split_age=0).start()
    old, now = [conditional([0.9, 0.8]), conditional([0.1, 0.05])], [conditional([0.2, 0.1]), conditional([0.9, 0.8])]
    step = view({1: old, 0: now}, table=line(0.3, base_ms=1.0))
    assert decider.decide(step) == [0, 2]
    assert np.sum(ForecastSurvival().start().decide(view({1: old}, table=line(0.3, base_ms=1.0)))) == 2


@pytest.mark.parametrize("field", [{"memory": 1.5}, {"objective": "luck"}, {"budget_age": 0}, {"prior": -1.0}])
def test_parameters_out_of_range_are_refused(field):
    from simtool.errors import UsageError  # noqa: PLC0415

    with pytest.raises(UsageError, match="expected"):
        ForecastSurvival(**field)

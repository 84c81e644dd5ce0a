"""Live beside replay: rows that must agree, errors, and the interval of each pair."""

import pytest

from simtool.analysis.divergence import first_divergence, mismatches
from simtool.analysis.fidelity.fidelity import judge
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN
from tests.replay.synthetic import constant_costs, profile_of, random_work, source_trace

PRUNES = ControllerSettings(LinearPredictor(0.0, 1.0, 0.0))


@pytest.fixture
def replayed(tmp_path):
    source = source_trace(tmp_path / "s", random_work(3, 6, 7))

    def run(placement, pre=10, controller=PRUNES):
        scenario = Scenario(BUILT_IN[placement], 2, controller)
        return replay(source, profile_of(constant_costs(pre=pre, duration=50)), scenario).trace(tmp_path / placement)

    return run


def test_a_run_agrees_with_itself_and_not_with_another_decision(replayed):
    one, other = replayed("lag"), replayed("lag", controller=ControllerSettings())
    assert mismatches(one, one)[1] == 0
    rows, wrong = mismatches(one, other)
    assert 0 < wrong <= rows
    assert first_divergence(one, one) is None
    found = str(first_divergence(one, other))
    assert "diverges from its replay in step" in found
    assert found.endswith("the decision differs on equal confidence: not a tie: a logic fault")


def test_errors_are_signed_and_pairs_have_the_ratio(replayed):
    live = {"static": [replayed("static", pre) for pre in (10, 12)], "lag": [replayed("lag", pre) for pre in (10, 12)]}
    found = judge(live, {"static": replayed("static", 20), "lag": replayed("lag", 20)}, {})
    assert found.mismatches == 0
    assert found.first_differences == ()
    assert all(error > 0 for error in found.errors("step time"))  # predicted dearer than it was
    assert all(error < 0 for error in found.errors("whole-run tok/s"))
    assert found.errors("acceptance length") == [0.0, 0.0]
    (pair,) = found.pairs
    assert (pair.baseline, pair.other) == ("static", "lag")
    assert pair.live.contains(pair.live.mean)


def test_one_repetition_judges_tokens_alone(replayed):
    found = judge({"static": [replayed("static")]}, {"static": replayed("static")}, {})
    assert (found.judged, found.pairs) == ((), ())
    assert found.rows > 0


def test_a_pair_is_foreseen_where_the_spread_of_the_draws_reaches_what_was_measured(replayed):
    live = {"static": [replayed("static", pre) for pre in (10, 12)], "lag": [replayed("lag", pre) for pre in (20, 22)]}
    point = {arm: replayed(arm, 10) for arm in live}
    wide = {"static": [replayed("static", 10)] * 2, "lag": [replayed("lag", pre) for pre in (10, 25)]}
    (without,), (narrow,), (reached,) = (
        judge(live, point, noisy).pairs for noisy in ({}, {arm: [point[arm]] * 3 for arm in live}, wide)
    )
    assert without.replayed.low == without.replayed.mean == narrow.replayed.low == narrow.replayed.high
    assert not without.foreseen
    assert reached.replayed.mean == without.replayed.mean
    assert reached.foreseen


def test_only_what_rounding_does_not_explain_is_a_fault(replayed):
    live = {"lag": [replayed("lag")]}
    assert judge(live, {"lag": replayed("lag")}, {}).faults == []
    other = replayed("lag", controller=ControllerSettings())
    found = judge(live, {"lag": other}, {})
    assert found.faults == [str(first_divergence(live["lag"][0], other))]

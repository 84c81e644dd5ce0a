"""Policies in orders that reach across steps: each works token by token, live and replayed, or is refused in a line."""

import pytest

from simtool.analysis.divergence import mismatches
from simtool.calibrate.fit import calibrate
from simtool.engine.devices.virtual import TimedDevice, VirtualClock, same_durations
from simtool.engine.outcomes.complete import complete_outcomes
from simtool.engine.serving.session import RunPlan, Session
from simtool.errors import PlacementError, UsageError
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario, recorded_controller
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import AHEAD_ARMS, DEVICE_SPLIT, resolve_placement
from simtool.step.policies.catalogue import POLICIES
from simtool.trace.checks.check import check_trace
from simtool.trace.checks.finding import Severity
from simtool.trace.trace import open_trace
from tests.engine import golden
from tests.engine.across_steps.test_ahead_live import PROMPTS, TOKENS, check_tokens, launched_ahead
from tests.engine.small_runs import requests, runner

#: Costs under which policies prune some sequences and spare others.
CONTROLLER = ControllerSettings(LinearPredictor(1.0, 0.1, 0.0), draft_ms=0.5)
LIVE = [
    "this-step-ahead@xllm:age=0",
    "this-step-ahead@dspark-strict",
    "this-step-ahead@dspark-production",
    "this-step-ahead@sglang-relay:table=additive",
    "this-step-ahead@vllm-adaptive",
    "this-step-ahead@vllm-ascend:update_every=2,initial=3",
    "this-step-ahead@threshold:least=0.4",
    "this-step-ahead@fixed-budget",
    "this-step-ahead@bandit",
    "this-step-ahead@forecast",
    "lag-ahead@xllm",
    "lag-ahead@dspark-production:split_age=1",
    "lag-ahead@sglang-relay:table=additive,split_age=2",
    "lag-ahead@vllm-adaptive:split_age=1",
    "lag-ahead@threshold:age=2,least=0.4",
    "lag-ahead@fixed-budget:split_age=1",
    "lag-ahead@bandit",
    "lag-ahead@forecast",
]
#: Only a replay can: it knows match runs, or splits on a device that no engine here has.
REPLAYED = {
    "this-step-ahead@oracle": "replay only",
    "lag-ahead@oracle": "replay only",
    "lag-ahead@vllm-adaptive": "this-step@vllm-adaptive",
    "lag-ahead@sglang-relay": "this-step@sglang-relay",
    "lag-ahead@dspark-production": "this-step@dspark-production",
    "lag-ahead@fixed-budget": "this-step@fixed-budget",
}
REFUSED = {
    **{f"static-ahead@{name}": "decides nothing" for name in POLICIES},
    **{f"{DEVICE_SPLIT.name}@{name}": "by its own rule" for name in POLICIES},
    "lag-ahead@dspark-strict": "never reads",
    "lag-ahead@vllm-ascend": "never reads|never does",
    "lag-ahead@threshold": "which this order never does",
}


def session():
    spec = golden.spec("dspark_b7")
    return Session(TimedDevice(runner(spec), same_durations(1_000), VirtualClock(tick_ns=7)), spec)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A run whose outcomes are complete, and a profile of every op that the orders have, for what only replays do."""
    folder = tmp_path_factory.mktemp("recorded")
    runs = [_record(folder / name, resolve_placement(name)) for name in ("lag-ahead", "this-step-ahead")]
    return runs[0], calibrate(runs, name="test", command="test", created="2026-01-01")


def _record(path, placement):
    s = session()
    s.record(path, RunPlan(requests(PROMPTS, TOKENS), placement, CONTROLLER))
    spec = golden.spec("dspark_b7")
    complete_outcomes(path, spec.target, spec.draft)
    return open_trace(path)


@pytest.mark.parametrize("name", LIVE)
def test_live_and_replayed_token_by_token(tmp_path, name):
    placement = resolve_placement(name)
    live = _record(tmp_path / "live", placement)
    check_tokens(live, "dspark_b7")
    ahead, _own = launched_ahead(live)
    assert ahead
    assert live.placement == placement
    profile = calibrate([live], name="test", command="test", created="2026-01-01")
    replayed = replay(live, profile, Scenario(placement, live.manifest.concurrency, recorded_controller(live.manifest)))
    rows, wrong = mismatches(live, replayed.trace(tmp_path / "replayed"))
    assert rows > 0
    assert wrong == 0
    assert live.manifest.details["policy_counters"] == replayed.manifest.details["policy_counters"]


@pytest.mark.parametrize("name", REPLAYED)
def test_a_replay_alone_serves_every_token_and_the_engine_says_why_it_cannot(recorded, tmp_path, name):
    live, profile = recorded
    placement = resolve_placement(name)
    again = replay(live, profile, Scenario(placement, live.manifest.concurrency, CONTROLLER)).trace(tmp_path / "again")
    assert [found for found in check_trace(again) if found.severity is Severity.ERROR] == []
    columns = ("request_id", "output_tokens")
    assert again.table("requests").select(columns).equals(live.table("requests").select(columns))
    with pytest.raises(UsageError, match=REPLAYED[name]) as refused:
        session().check(RunPlan(requests(PROMPTS, 4), placement, CONTROLLER))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", REFUSED)
def test_what_an_order_cannot_ask_is_refused_in_a_line(name):
    with pytest.raises(PlacementError, match=REFUSED[name]) as refused:
        resolve_placement(name)
    assert "\n" not in str(refused.value)


def test_every_policy_is_tried_in_every_order_across_steps():
    tried = {text.partition(":")[0] for text in (*LIVE, *REPLAYED, *REFUSED)}
    orders = (*AHEAD_ARMS, DEVICE_SPLIT.name)
    assert tried == {f"{order}@{name}" for order in orders for name in POLICIES}

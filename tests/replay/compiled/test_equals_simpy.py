"""The compiled simulator against the one that is read: every table, to the ns, whatever is drawn."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simtool.errors import CapacityError, ProfileError, TraceError
from simtool.profile.cost import Line
from simtool.profile.profile import Profile
from simtool.replay.replay import replay
from simtool.replay.scenario import Arrivals, Scenario
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.graph_buckets import GraphBuckets, make_buckets
from simtool.step.order_search import legal_orders
from simtool.step.placement import AHEAD_ARMS, BUILT_IN, NAMED, XLLM_ARMS, with_lag, with_rebinds, with_sync
from tests.replay.compiled.equality import replay_both
from tests.replay.synthetic import (
    ONE_DEVICE,
    STREAMS,
    Asked,
    Work,
    constant_costs,
    profile_of,
    random_costs,
    random_work,
    source_trace,
    with_history,
)

LAGS = {f"{name}-{lag}": with_lag(BUILT_IN[name], lag) for name in ("lag", "lag-overlap") for lag in (2, 3)}
SYNCS = {
    "static-syncs": with_sync(BUILT_IN["static"], ["build_dense", "fill_dense", "launch_target"]),
    "index-syncs": with_sync(BUILT_IN["lag-overlap-index"], ["build_query", "build_fill_index", "-|launch_verify"]),
}
PLACEMENTS = {**BUILT_IN, **XLLM_ARMS, **LAGS, **SYNCS, "lag+rebind": with_rebinds(BUILT_IN["lag"])}
EXECUTORS = (ONE_DEVICE, STREAMS, {"prepare": "copies", "compute": "compute", "copy": "copies"})
CONTROLLERS = (
    ControllerSettings(LinearPredictor(0.5, 0.25, 0.001), draft_ms=0.0, min_gain=0.0),
    ControllerSettings(LinearPredictor(0.0, 1.0, 0.0), draft_ms=1.0, min_gain=0.05),
    ControllerSettings(LinearPredictor(0.0, 50.0, 0.0), min_gain=0.5),  # prunes everything: steps of width 0
    ControllerSettings(),
)


def noisy(profile: Profile, seed: int) -> Profile:
    """The profile with residuals and refits at some of its costs, of unlike number, as a calibrated one has."""
    rng = np.random.default_rng(seed)

    def drawn(cost):
        count = int(rng.choice((0, 1, 7, 40, 300)))
        residuals = tuple(int(ns) for ns in rng.integers(-300, 300, count))
        slopes = cost.per_feature_ns.items()
        refits = tuple(
            Line(cost.intercept_ns + rng.random(), {name: rng.random() * slope for name, slope in slopes})
            for _ in range(3)
        )
        ranges = {name: (3.0, 9.0) for name in cost.per_feature_ns if "lull" not in name}
        return replace(cost, residuals_ns=residuals, refits=refits, ranges=ranges)

    return profile.each_cost(drawn)


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    placement=st.sampled_from(sorted(PLACEMENTS)),
    executors=st.sampled_from(EXECUTORS),
    drafts=st.sampled_from((1, 3, 7, 16)),
    requests=st.integers(1, 12),
    concurrency=st.sampled_from((1, 2, 3, 5, 64)),
    controller=st.sampled_from(CONTROLLERS),
    spread_ns=st.sampled_from((0, 3_000, 100_000)),
    arrivals=st.sampled_from((Arrivals("closed"), Arrivals("trace"), Arrivals("poisson", 50_000.0))),
    noise=st.sampled_from(("none", "residual")),
    refit=st.sampled_from((None, 0, 2)),
    history=st.booleans(),
    stale_loss=st.sampled_from((0.0, 0.3, 1.0)),
    kv_blocks=st.sampled_from((None, 3, 6)),
    graphs=st.sampled_from((GraphBuckets(), GraphBuckets((1, 2, 4), make_buckets(40), rebinds=True))),
)
def test_whatever_is_drawn(
    seed, placement, executors, drafts, requests, concurrency, controller, spread_ns, arrivals, noise, refit, history,
    stale_loss, kv_blocks, graphs,
):  # fmt: skip
    work, costs = random_work(seed, drafts, requests), random_costs(seed)
    asked = tuple(replace(one, arrival_ns=i * spread_ns) for i, one in enumerate(work.requests))
    profile = noisy(profile_of(with_history(costs, seed) if history else costs, executors), seed)
    profile = replace(profile if refit is None else profile.refitted(refit), graphs=graphs)
    scenario = Scenario(
        PLACEMENTS[placement], concurrency, controller, arrivals,
        noise=noise, seed=seed % 5, stale_loss=stale_loss, kv_blocks=kv_blocks,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        replay_both(source_trace(Path(folder) / "source", replace(work, requests=asked)), profile, scenario)


@pytest.mark.parametrize("concurrency", [1, 4, 16, 64])
@pytest.mark.parametrize("placement", sorted(PLACEMENTS))
def test_every_placement_at_every_concurrency(tmp_path, placement, concurrency):
    source = source_trace(tmp_path / "source", random_work(3, 7, 70, tokens=24))
    profile = noisy(profile_of(with_history(random_costs(3), 3), STREAMS), 3)
    replayed = replay_both(
        source, profile, Scenario(PLACEMENTS[placement], concurrency, CONTROLLERS[0], noise="residual")
    )
    assert replayed.tables["steps"]["batch"].max() == concurrency


@pytest.mark.parametrize("lag", [None, 0, 1, 2, 3])
def test_every_legal_order(tmp_path, lag):
    """Each order that the search times, all by themselves and every fourth with ops that block where it runs them."""
    source = source_trace(tmp_path / "source", random_work(11, 3, 6))
    free = legal_orders(lag).placements
    syncing = legal_orders(lag, ["fill_varlen", "fill_dense", "launch_target"]).placements
    assert len(free) == len(syncing) > 2
    assert all(placement.sync for placement in syncing)
    for index, placement in enumerate((*free, *syncing[::4])):
        executors = EXECUTORS[index % len(EXECUTORS)]
        profile = profile_of(with_history(random_costs(index), index), executors)
        replay_both(source, profile, Scenario(placement, 3, CONTROLLERS[index % 2]))


def test_the_drawn_cases_reach_what_they_are_drawn_for(tmp_path):
    """Guards the tests above: pruned and full steps, a step of width 0, KV pressure, waiting for an arrival."""
    work = random_work(7, 5, 6)
    source = source_trace(tmp_path / "source", work)
    profile = profile_of(random_costs(7))
    steps = replay_both(source, profile, Scenario(BUILT_IN["lag"], 2, CONTROLLERS[0])).tables["steps"]
    assert set(steps.filter(steps["kind"] == "decode")["pruned"]) == {True, False}
    rows = replay_both(source, profile, Scenario(BUILT_IN["this-step"], 2, CONTROLLERS[2])).tables["rows"]
    assert rows["prefix_len"].max() == 0
    tight = replay_both(source, profile, Scenario(BUILT_IN["static"], 6, kv_blocks=3)).tables["steps"]
    assert tight["batch"].max() < 6
    late = tuple(replace(one, arrival_ns=i * 10**9) for i, one in enumerate(work.requests))
    spaced = source_trace(tmp_path / "spaced", replace(work, requests=late))
    scenario = Scenario(BUILT_IN["static"], 6, arrivals=Arrivals("trace"))
    assert 10**9 in set(replay_both(spaced, profile, scenario).tables["steps"]["start_ns"])


def test_substituted_outcomes(tmp_path):
    work = random_work(5, 3, 4, tokens=40)
    kept = {key: value for i, (key, value) in enumerate(work.outcomes.items()) if i % 3}
    source = source_trace(tmp_path / "source", replace(work, outcomes=kept))
    scenario = Scenario(BUILT_IN["lag"], 2, CONTROLLERS[0], outcomes="resample")
    replayed = replay_both(source, profile_of(random_costs(5)), scenario)
    assert replayed.manifest.details["anchors_substituted"] > 0


def test_both_refuse_alike(tmp_path):
    """A missing outcome, a missing cost (before it, and after it) and a request that never fits."""
    work = Work(2, (Asked("a", 4, 6, 6),), {("a", anchor): ([0.5, 0.5], 0) for anchor in (4, 5, 7, 8)})
    source = source_trace(tmp_path / "source", work, concurrency=1)
    profile = profile_of(constant_costs(pre=10, duration=5))
    without = replace(profile, decode=replace(profile.decode, host={}))
    cases = (
        (profile, Scenario(BUILT_IN["static"], 1), TraceError),
        (without, Scenario(BUILT_IN["static"], 1), ProfileError),
        (without, Scenario(BUILT_IN["static"], 1, arrivals=Arrivals("poisson", 5.0)), ProfileError),
        (profile, Scenario(BUILT_IN["static"], 1, arrivals=Arrivals("poisson", 5.0)), TraceError),
        (profile, Scenario(BUILT_IN["static"], 1, kv_blocks=1, controller=CONTROLLERS[0]), TraceError),
    )
    for costs, scenario, kind in cases:
        told = []
        for simulator in ("simpy", "compiled"):
            with pytest.raises((kind, CapacityError)) as found:
                replay(source, costs, scenario, simulator=simulator)
            told.append(str(found.value))
        assert told[0] == told[1]


@pytest.mark.parametrize("name", [*AHEAD_ARMS, "device-split"])
def test_what_only_simpy_can_replay_it_does_and_the_manifest_says_so(tmp_path, name):
    source, profile = source_trace(tmp_path / "source", random_work(3, 3, 4)), profile_of(random_costs(3), STREAMS)
    scenario = Scenario(NAMED[name], 2, CONTROLLERS[0])
    asked, read = (replay(source, profile, scenario, simulator=by) for by in ("compiled", "simpy"))
    assert asked.manifest == read.manifest
    assert asked.manifest.details["simulator"] == "simpy"
    assert asked.tables["events"].equals(read.tables["events"])

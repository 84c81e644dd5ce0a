"""Replay at known costs, calibrate the replay, and the costs come back."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from simtool.calibrate.fit import calibrate, content_hash
from simtool.errors import ProfileError, TraceError
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.ops import priced_op
from simtool.step.placement import BUILT_IN, NAMED
from simtool.trace.trace import replace_table
from tests.replay.synthetic import (
    ONE_DEVICE,
    STREAMS,
    Line,
    constant_costs,
    profile_of,
    random_costs,
    random_work,
    save_as_live,
    source_trace,
)

CONTROLLER = ControllerSettings(LinearPredictor(0.5, 0.25, 0.001))
PLACEMENTS = ("static", "this-step", "lag", "lag-overlap", "xllm-2280/this-step", "xllm-2280/lag")


def known_costs():
    """Random lines, with latencies that are the same everywhere, as on one machine."""
    costs = random_costs(2, scale=4_000)
    blocking = [key for key in costs.pre if priced_op(key[1]).blocks]
    return dataclasses.replace(
        costs,
        pre={key: Line(line.base + 500, line.slopes) for key, line in costs.pre.items()},
        post={key: Line(line.base + 500, line.slopes) for key, line in costs.post.items()},
        wake=dict.fromkeys(blocking, Line(70)),
        queue=dict.fromkeys(costs.duration, Line(30)),
        launch=dict.fromkeys(costs.launch, Line(-50)),
        gap=Line(900),
    )


def recordings(tmp_path, costs, executors=ONE_DEVICE, placements=PLACEMENTS, seed=3):
    source = source_trace(tmp_path / "source", random_work(seed, 5, 12, tokens=40))
    for name in placements:
        result = replay(source, profile_of(costs, executors), Scenario(NAMED[name], 4, CONTROLLER))
        yield save_as_live(result, tmp_path / NAMED[name].file_stem)


def fitted(traces, name="fitted"):
    return calibrate(list(traces), name=name, command="simtool calibrate", created="2026-01-01")


@pytest.mark.parametrize("executors", [ONE_DEVICE, STREAMS])
def test_costs_come_back(tmp_path, executors):
    costs = known_costs()
    profile = fitted(recordings(tmp_path, costs, executors))
    assert profile.executors == executors
    assert round(profile.loop_gap.intercept_ns) == 900
    target = profile.decode.device["target"].duration
    for feature in ("target_rows", "validate_kv"):  # nothing was captured, so no step ran past the graphs
        slope = costs.duration["decode", "target"].slopes[feature]
        assert target.per_feature_ns[feature] == pytest.approx(slope, rel=1e-3)
    for name, host in profile.decode.host.items():
        assert np.abs(host.pre.residuals_ns).max() <= 1, name
        assert host.wake is None or round(host.wake.intercept_ns) == 70
        assert all(round(launch.intercept_ns) == -50 for launch in host.launches.values())
    for name, work in profile.decode.device.items():
        assert np.abs(work.duration.residuals_ns).max() <= 1, name
        assert round(work.queue.intercept_ns) == 30


def test_a_placement_that_was_never_run_is_foretold(tmp_path):
    """lag-overlap and its late form, priced from three other placements; then from seeds that were not fitted."""
    costs = known_costs()
    profile = fitted(recordings(tmp_path, costs, placements=PLACEMENTS[:3]))
    other = source_trace(tmp_path / "other", random_work(17, 5, 12, tokens=40))
    for name in ("lag-overlap", "lag-overlap-late"):
        scenario = Scenario(NAMED[name], 4, CONTROLLER)
        truth, told = (replay(other, p, scenario).tables["steps"]["end_ns"].max() for p in (profile_of(costs), profile))
        assert told == pytest.approx(truth, rel=1e-4)


def test_predictor_comes_back(tmp_path):
    """target: 2 us + 300 ns a row; verify: 1 us. In the predictor's ms: 0.003 + 0.0003 a row, no prefix cost."""
    costs = constant_costs(pre=10, duration=10)
    lines = {("decode", "target"): Line(2_000, {"validate_rows": 300}), ("decode", "verify"): Line(1_000)}
    costs = dataclasses.replace(costs, duration={**costs.duration, **lines})
    profile = fitted(recordings(tmp_path, costs))
    assert profile.predictor.intercept_ms == pytest.approx(0.003, rel=1e-3)
    assert profile.predictor.query_token_ms == pytest.approx(0.0003, rel=1e-3)
    assert profile.predictor.query_prefix_ms == pytest.approx(0.0, abs=1e-8)


def test_no_predictor_without_variation(tmp_path):
    work = random_work(3, 5, 1)
    source = source_trace(tmp_path / "source", work)
    result = replay(source, profile_of(constant_costs(10, 10)), Scenario(BUILT_IN["static"], 1))
    profile = fitted([save_as_live(result, tmp_path / "static")])
    assert profile.predictor is None
    assert any("no validate-time predictor" in warning for warning in profile.provenance.warnings)


def test_provenance_names_the_traces_by_content(tmp_path):
    traces = list(recordings(tmp_path, constant_costs(10, 10), placements=("static", "lag")))
    profile = fitted(traces)
    assert [entry["placement"] for entry in profile.provenance.traces] == ["static", "lag"]
    assert profile.provenance.traces[0]["sha256"] == content_hash(traces[0]) != content_hash(traces[1])


def test_a_replay_measures_nothing_and_is_refused(tmp_path):
    source = source_trace(tmp_path / "source", random_work(3, 5, 4))
    result = replay(source, profile_of(constant_costs(10, 10)), Scenario(BUILT_IN["static"], 2))
    with pytest.raises(ProfileError, match=r"r: is replayed, so its times come from the profile 'synthetic'"):
        fitted([result.save(tmp_path / "r")])


def test_tables_of_different_runs_are_one_line(tmp_path):
    """A caller of the library, whom no command guards: what a step cannot price is named, not a KeyError."""
    (live,) = recordings(tmp_path, constant_costs(10, 10), placements=("static",))
    steps, events = live.table("steps"), live.table("events")
    moved = events.with_columns(step=pl.when(pl.col("step") == 1).then(0).otherwise(pl.col("step")).cast(pl.Int32))
    with pytest.raises(TraceError, match=r"step 0 is a prefill step, yet ran build_query, which grows with block_rows"):
        fitted([replace_table(live, "events", moved)])
    odd = events.with_columns(op=pl.col("op").replace("target", "daydream"))
    with pytest.raises(TraceError, match=r"device work 'daydream' is not in the catalogue"):
        fitted([replace_table(live, "events", odd)])
    assert steps["kind"].to_list()[:2] == ["prefill", "decode"]


def test_refuses_what_it_cannot_fit(tmp_path):
    source = source_trace(tmp_path / "empty", random_work(3, 5, 1))
    with pytest.raises(TraceError, match="no step with both its ops and its sizes"):
        fitted([source])
    with pytest.raises(ProfileError, match="no trace given"):
        fitted([])
    one = next(recordings(tmp_path / "a", constant_costs(10, 10)))
    other = dataclasses.replace(one, manifest=dataclasses.replace(one.manifest, device_name="another"))
    with pytest.raises(ProfileError, match="different devices"):
        fitted([one, other])

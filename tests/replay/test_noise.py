"""Noise: the same draws for every placement, and only when asked for."""

from dataclasses import replace

import pytest

from simtool.errors import ProfileError
from simtool.profile.cost import Cost
from simtool.profile.profile import HostCost, WorkCost
from simtool.replay.keyed_rng import uniform, uniforms
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.placement import BUILT_IN
from tests.replay.synthetic import constant_costs, profile_of, random_work, source_trace

PROFILE = profile_of(constant_costs(pre=1_000, duration=5_000))


def test_many_draws_are_those_of_each_key():
    heads = [((seed, f"r{i}"), range(i, i + i % 4)) for seed in range(3) for i in range(300)]
    assert uniforms(heads).tolist() == [uniform(*head, number) for head, numbers in heads for number in numbers]
    assert uniforms([]).tolist() == []


def noisy_profile():
    residuals = tuple((i * 37) % 401 - 200 for i in range(400))
    decode = PROFILE.decode
    device = {
        name: WorkCost(replace(cost.duration, residuals_ns=residuals), cost.queue)
        for name, cost in decode.device.items()
    }
    return replace(PROFILE, decode=replace(decode, device=device))


def target_times(source, profile, placement, **settings):
    """Target durations by the step's first request and anchor."""
    result = replay(source, profile, Scenario(BUILT_IN[placement], 1, **settings))
    events = result.tables["events"]
    steps = result.tables["rows"].group_by("step", maintain_order=True).first()
    keys = {step: (name, at) for step, name, at in steps.select("step", "request_id", "anchor_position").iter_rows()}
    rows = events.select("step", "op", "lane", "start_ns", "end_ns").iter_rows()
    return {keys[step]: end - start for step, op, lane, start, end in rows if (op, lane) == ("target", "compute")}


@pytest.fixture
def source(tmp_path):
    return source_trace(tmp_path / "s", random_work(5, 4, 3, tokens=120))


def test_none_ignores_residuals(source):
    assert set(target_times(source, noisy_profile(), "static").values()) == {5_000}


def test_the_same_work_has_the_same_luck_under_every_placement(source):
    static = target_times(source, noisy_profile(), "static", noise="residual", seed=3)
    assert len(set(static.values())) > 10
    for placement in ("this-step", "lag", "lag-overlap"):
        times = target_times(source, noisy_profile(), placement, noise="residual", seed=3)
        shared = times.keys() & static.keys()  # a pruned step may stop at an anchor that static jumps over
        assert len(shared) > 50
        assert all(times[key] == static[key] for key in shared)


def test_the_seed_decides(source):
    one, same, other = (
        target_times(source, noisy_profile(), "static", noise="residual", seed=seed) for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other


def test_neighbouring_anchors_take_neighbouring_residuals(source):
    """Within one block of 32 anchors the recording is played on, so slow spells stay spells."""
    times = target_times(source, noisy_profile(), "static", noise="residual")
    residuals = [(i * 37) % 401 - 200 for i in range(400)]
    place = {value: i for i, value in enumerate(residuals)}
    pairs = [(a, b) for a, b in zip(times, list(times)[1:], strict=False) if a[0] == b[0] and a[1] // 32 == b[1] // 32]
    assert len(pairs) > 20
    for a, b in pairs:
        assert (place[times[b] - 5_000] - place[times[a] - 5_000]) % 400 == b[1] - a[1]


def test_durations_never_fall_below_zero(source):
    costs = {"schedule": HostCost(Cost(10.0, residuals_ns=(-1_000,)))}
    profile = replace(PROFILE, decode=replace(PROFILE.decode, host={**PROFILE.decode.host, **costs}))
    events = replay(source, profile, Scenario(BUILT_IN["static"], 2, noise="residual")).tables["events"]
    assert (events["end_ns"] - events["start_ns"]).min() == 0


def test_a_missing_cost_names_the_op_and_who_runs_it(source):
    host = {name: cost for name, cost in PROFILE.decode.host.items() if name != "read_confidence"}
    profile = replace(PROFILE, decode=replace(PROFILE.decode, host=host))
    with pytest.raises(ProfileError, match="no cost of 'read_confidence' in a decode step; pool a recording of this-"):
        replay(source, profile, Scenario(BUILT_IN["this-step"], 2))


def test_extrapolation_is_said(source):
    target = PROFILE.decode.device["target"]
    known = replace(target.duration, ranges={"validate_rows": (1.0, 4.0)})
    device = {**PROFILE.decode.device, "target": replace(target, duration=known)}
    profile = replace(PROFILE, decode=replace(PROFILE.decode, device=device))
    warnings = replay(source, profile, Scenario(BUILT_IN["static"], 2)).manifest.warnings
    assert any("target at 10 validate_rows (calibrated 1 to 4)" in warning for warning in warnings)
    assert not replay(source, PROFILE, Scenario(BUILT_IN["static"], 2)).manifest.warnings

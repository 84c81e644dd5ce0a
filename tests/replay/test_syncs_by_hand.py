"""Ops that block as a property of their implementation: steps worked out on paper, as in test_by_hand.

Every host op takes 10 ns, draft 100, sample 20, target 200, verify 10, sampling without confidence 5. The costs were
"recorded" without syncs: fill_varlen is then 0 before its wait and the 10 of a launch after it, launch_verify 10 after.
"""

import pytest

from simtool.analysis.critical_path.critical_path import critical_path
from simtool.errors import ProfileError, UsageError
from simtool.profile.profile import Profile
from simtool.profile.proxies import with_proxies
from simtool.profile.whatif import check_effect, with_changes
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import NAMED, with_sync
from tests.replay.synthetic import (
    ONE_DEVICE,
    STREAMS,
    Asked,
    Line,
    Work,
    constant_costs,
    profile_of,
    random_costs,
    random_work,
    source_trace,
)

COSTS = constant_costs(
    pre=10, device_draft=100, device_sample=20, device_target=200, device_verify=10, device_sample_tokens=5
)
PRUNE = ControllerSettings(LinearPredictor(0.0, 1.0, 0.0))
FILL, VERIFY = "unsync=fill_varlen", "unsync=launch_verify"


def last_step(tmp_path, placement, changes=(), costs=COSTS, executors=ONE_DEVICE):
    """The replay of one request whose drafts never match, and its last step."""
    outcomes = {("a", anchor): ([0.0, 0.0], 0) for anchor in range(4, 10)}
    source = source_trace(tmp_path / "source", Work(2, (Asked("a", 4, 6, 6),), outcomes), concurrency=1)
    profile = with_changes(profile_of(costs, executors), changes)
    found = replay(source, profile, Scenario(NAMED[placement], 1, PRUNE))
    return found, found.tables["steps"].row(-1, named=True)


@pytest.mark.parametrize(
    ("placement", "changes", "expected_ns"),
    [
        # no confidence: draft 40-140, sample_tokens -145, target -345, verify -355. |355 write_context 365 finish 375.
        ("xllm-2280/static", (), 375),
        # read_confidence |160 decide 170 build_varlen 180 fill |180 190 launch_target 200: target 200-400.
        # launch_verify |400 410: verify 410-420. |420 write_context 430 finish 440.
        ("xllm-2280/this-step", (), 440),
        # decide 70 build_varlen 80 fill |160 170 launch_target 180: target 180-380.
        # launch_verify |380 390: verify 390-400. |400 write_context 410 store_confidence 420 finish 430.
        ("xllm-2280/lag", (), 430),
        # the draft starts at 50; fill |170 180 launch_target 190: target 190-390, launch_verify |390 400: verify -410.
        ("xllm-2280/lag-overlap", (), 440),
        # fill pinned: target 160-360 as in lag; launch_verify waits from 100 |360 370: verify -380.
        ("xllm-2280/lag", (FILL,), 410),
        # verify pinned: target 180-380, verify -390.
        ("xllm-2280/lag", (VERIFY,), 420),
        # both: our lag.
        ("xllm-2280/lag", (FILL, VERIFY), 400),
        ("xllm-2280/lag-overlap", (FILL, VERIFY), 410),
        ("xllm-2280/this-step", (FILL, VERIFY), 430),
    ],
)
@pytest.mark.parametrize("executors", [ONE_DEVICE, STREAMS])
def test_step_time(tmp_path, placement, changes, expected_ns, executors):
    _, step = last_step(tmp_path, placement, changes, executors=executors)
    assert step["end_ns"] - step["start_ns"] == expected_ns


def test_a_measured_sync_is_priced_as_measured(tmp_path):
    """fill_varlen: 30 before its wait, told 7 late, 40 after. decide 70 build_varlen 80 fill 110 |167 207."""
    key = ("decode", "fill_varlen (syncs)")
    costs = constant_costs(pre=10, device_draft=100, device_sample=20, device_target=200, device_verify=10)
    costs = type(costs)({**costs.pre, key: Line(30)}, {key: Line(40)}, {key: Line(7)}, costs.duration)
    found, step = last_step(tmp_path, "xllm-2280/lag", costs=costs)
    # launch_target 217: target -417, launch_verify |417 427: verify -437. |437 and three ops.
    assert step["end_ns"] - step["start_ns"] == 467
    assert "launch_verify was not recorded where it syncs" in " ".join(found.manifest.warnings)
    assert "fill_varlen was not recorded" not in " ".join(found.manifest.warnings)
    fill = found.tables["events"].filter(step=step["step"], op="fill_varlen", lane="host").row(0, named=True)
    times = [fill[name] - step["start_ns"] for name in ("start_ns", "wait_start_ns", "wait_end_ns", "end_ns")]
    assert times == [80, 110, 167, 207]


def test_the_wait_is_the_devices_on_the_critical_path(tmp_path):
    """What the host waited for bounds the step; what it does after that is exposed."""
    found, step = last_step(tmp_path, "xllm-2280/lag")
    path = critical_path(found.tables["steps"], found.tables["events"], ONE_DEVICE)
    mine = path.segments.filter(step=step["step"])
    told = [(op, start - step["start_ns"], end - step["start_ns"]) for op, start, end in
            mine.select("op", "start_ns", "end_ns").iter_rows()]  # fmt: skip
    assert told == [
        ("schedule", 0, 10), ("read_states", 10, 20), ("build_query", 20, 30), ("launch_draft", 30, 40),
        ("draft", 40, 140), ("sample", 140, 160), ("fill_varlen", 160, 170), ("launch_target", 170, 180),
        ("target", 180, 380), ("launch_verify", 380, 390), ("verify", 390, 400),
        ("write_context", 400, 410), ("store_confidence", 410, 420), ("finish", 420, 430),
    ]  # fmt: skip
    exposed = mine.filter(mine["exposed_ns"] > 0)["op"].to_list()
    assert {"fill_varlen", "launch_target", "launch_verify"} <= set(exposed)


@pytest.mark.parametrize("seed", range(4))
def test_unsync_is_the_arm_without_the_sync(tmp_path, seed):
    """Replayed to the nanosecond, with costs measured both ways."""
    source = source_trace(tmp_path / "source", random_work(seed, 3, 5))
    profile = profile_of(random_costs(seed), STREAMS)
    plain = NAMED["lag"]
    synced = with_sync(plain, ["fill_varlen", "launch_verify|-", "build_query", "launch_target"])
    changes = [f"unsync={name}" for name in ("fill_varlen", "launch_verify", "build_query", "launch_target")]
    pinned = replay(source, with_changes(profile, changes), Scenario(synced, 2, PRUNE))
    without = replay(source, profile, Scenario(plain, 2, PRUNE))
    blocked = replay(source, profile, Scenario(synced, 2, PRUNE))
    assert pinned.tables["events"].equals(without.tables["events"])
    assert not blocked.tables["events"].equals(without.tables["events"])
    assert pinned.manifest.placement["name"] == "lag"
    assert "sync" not in pinned.manifest.placement
    assert pinned.caveats.changes == tuple(changes)
    assert blocked.manifest.placement["sync"] == list(synced.sync)
    assert blocked.tables["rows"].equals(without.tables["rows"])  # a sync moves times, not tokens


def test_a_recording_with_the_sync_prices_the_arm_without(tmp_path):
    """Both sides of the wait, and no wait."""
    costs = random_costs(3)
    key, plain = ("decode", "fill_varlen (syncs)"), ("decode", "fill_varlen")
    only = {name: line for name, line in costs.pre.items() if name != plain}
    source = source_trace(tmp_path / "source", random_work(1, 3, 5))
    found = replay(source, profile_of(type(costs)(**{**vars(costs), "pre": only})), Scenario(NAMED["lag"], 2, PRUNE))
    assert any("fill_varlen was only recorded where it syncs" in line for line in found.manifest.warnings)
    slopes = {name: costs.pre[key].slopes[name] + costs.post[key].slopes[name] for name in costs.pre[key].slopes}
    joined = {**costs.pre, plain: Line(costs.pre[key].base + costs.post[key].base, slopes)}
    launch = {**costs.launch, **{("decode", "fill_varlen", work): costs.launch["decode", "fill_varlen (syncs)", work]
                                 for work in ("fill_varlen_index", "fill_varlen")}}  # fmt: skip
    other = profile_of(type(costs)(**{**vars(costs), "pre": joined, "launch": launch}))
    expected = replay(source, other, Scenario(NAMED["lag"], 2, PRUNE))
    assert found.tables["events"].equals(expected.tables["events"])


def test_a_change_of_an_op_changes_it_where_it_syncs(tmp_path):
    _, before = last_step(tmp_path, "xllm-2280/lag")
    source = source_trace(tmp_path / "again", Work(2, (Asked("a", 4, 6, 6),), {
        ("a", anchor): ([0.0, 0.0], 0) for anchor in range(4, 10)}), concurrency=1)  # fmt: skip
    free = with_changes(with_proxies(profile_of(COSTS)), ["launch_verify=0", "fill_varlen=0"])
    steps = replay(source, free, Scenario(NAMED["xllm-2280/lag"], 1, PRUNE)).tables["steps"]
    after = steps.row(-1, named=True)
    assert after["end_ns"] - after["start_ns"] == before["end_ns"] - before["start_ns"] - 20


@pytest.mark.parametrize(
    ("changes", "named"),
    [(["unsync=nothing"], "no op"), (["unsync=fill_varlen", "unsync=fill_varlen"], "said before")],
)
def test_an_unsync_of_nothing_is_refused(changes, named):
    with pytest.raises(UsageError, match=named):
        with_changes(profile_of(COSTS), changes)


def test_an_unsync_without_effect_is_refused():
    profile = profile_of(COSTS)
    check_effect(profile, ["unsync=fill_varlen"], [NAMED["static"], NAMED["xllm-2280/lag"]])
    with pytest.raises(UsageError, match="never syncs in lag, static"):
        check_effect(profile, ["unsync=fill_varlen"], [NAMED["lag"], NAMED["static"]])


def test_a_pinned_machine_survives_its_file():
    profile = with_changes(profile_of(COSTS), ["unsync=fill_varlen"])
    assert Profile.from_dict(profile.to_dict()).pinned == ("fill_varlen",)
    table = profile.to_dict()
    del table["pinned"]
    assert Profile.from_dict(table).pinned == ()
    with pytest.raises(ProfileError, match="pined"):
        Profile.from_dict({**profile.to_dict(), "pined": []})

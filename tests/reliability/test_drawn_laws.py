"""Laws held to drawn inputs: a comparison turned round, costs times one and two, request lines in any order; and
manifests, profiles and placements that are wrong in any one place.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simtool.analysis.comparison.arms import Arm
from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.headline import Metric
from simtool.analysis.comparison.runs import Run
from simtool.errors import SimtoolError
from simtool.profile.profile import Profile
from simtool.profile.whatif import with_change
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.placement import BUILT_IN, placement_from_dict
from simtool.trace.importers.requests import read_requests
from simtool.trace.manifest import Manifest
from simtool.trace.trace import Trace
from tests.reliability.hostile.spoiling import spoilt
from tests.replay.synthetic import constant_costs, profile_of, random_costs, random_work, source_trace
from tests.trace.small import small_manifest

_QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
_METRICS = (Metric.TOKENS_PER_S, Metric.STEP_TIME)
_SEEDS = st.integers(0, 10**6)
_NAMES = st.sampled_from(("static", "this-step", "lag", "lag-overlap"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return source_trace(tmp_path_factory.mktemp("laws") / "source", random_work(5, 4, 6, tokens=12))


def _arm(name: str, seed: int, runs: int, steps: int) -> Arm:
    rng = np.random.default_rng(seed)
    made = tuple(
        Run(
            f"{name}-{index}", rng.integers(4, 20, steps), rng.integers(5_000, 9_000, steps), workload=f"{seed} {index}"
        )
        for index in range(runs)
    )
    return Arm(name, name, "modeled", made, ())


@_QUICK
@given(
    _SEEDS,
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from((60, 200)),
    st.sampled_from((Metric.TOKENS_PER_S, Metric.STEP_TIME)),
)
def test_a_comparison_turned_round_says_the_same(seed: int, mine: int, theirs: int, steps: int, metric: Metric) -> None:
    one, other = _arm("a", seed, mine, steps), _arm("b", seed + 1, theirs, steps)
    there, back = compare(one, other, metric), compare(other, one, metric)
    assert np.log(there.ratio) == pytest.approx(-np.log(back.ratio), abs=1e-9)
    ends, turned = there.found.bounds, back.found.bounds
    assert (ends is None) == (turned is None)
    if ends is not None and turned is not None:
        assert np.log(ends) == pytest.approx(-np.log(turned[::-1]), abs=1e-9)
    assert (there.resolved, there.needed) == (back.resolved, back.needed)
    assert there.faster != back.faster


@_QUICK
@given(seed=_SEEDS, name=_NAMES)
def test_any_costs_twice_as_high_make_times_twice_as_long(seed: int, name: str, source: Trace) -> None:
    profile, scenario = profile_of(random_costs(seed)), Scenario(BUILT_IN[name], 2)
    once = replay(source, profile, scenario).tables
    twice = replay(source, profile.each_cost(lambda cost: cost.scaled(2)), scenario).tables
    for table in ("steps", "events"):
        frame = once[table]
        times = [column for column in frame.columns if column.endswith("_ns")]
        assert frame.with_columns(frame[column] * 2 for column in times).equals(twice[table])
    assert once["rows"].equals(twice["rows"])


@_QUICK
@given(seed=_SEEDS, name=_NAMES, cost=st.sampled_from(("target", "decide", "device.target", "schedule")))
def test_a_cost_times_one_changes_nothing(seed: int, name: str, cost: str, source: Trace) -> None:
    profile, scenario = profile_of(random_costs(seed)), Scenario(BUILT_IN[name], 2)
    changed = with_change(profile, f"{cost}=x1")
    for table, frame in replay(source, profile, scenario).tables.items():
        assert frame.equals(replay(source, changed, scenario).tables[table])


_CSV = [f"2024-05-10 00:00:{second:02}.0000000,{10 + second},{5 + second}" for second in range(6)]
_JSON = [json.dumps({"timestamp": 500 * at, "input_length": 9 + at, "output_length": 4}) for at in range(6)]


@_QUICK
@given(order=st.permutations(range(6)), as_csv=st.booleans())
def test_request_lines_may_stand_in_any_order(order: list[int], as_csv: bool, tmp_path: Path) -> None:
    lines, head = (_CSV, ["TIMESTAMP,ContextTokens,GeneratedTokens"]) if as_csv else (_JSON, [])
    found = []
    for name, chosen in (("sorted", range(6)), ("drawn", order)):
        (tmp_path / name).write_text("\n".join([*head, *(lines[at] for at in chosen)]) + "\n")
        requests = read_requests(tmp_path / name).requests
        found.append([(each.arrival_ns, each.prompt_tokens, each.max_new_tokens) for each in requests])
    assert found[0] == found[1]
    assert len(found[0]) == 6


_MANIFEST = json.loads(json.dumps(small_manifest().to_dict()))
_PROFILE = json.loads(json.dumps(profile_of(constant_costs(pre=1_000, duration=5_000)).to_dict()))
_PLACEMENT = json.loads(json.dumps(BUILT_IN["lag"].to_dict()))


_FORMATS: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], Any]]] = {
    "manifest": (_MANIFEST, Manifest.from_dict),
    "profile": (_PROFILE, Profile.from_dict),
    "placement": (_PLACEMENT, placement_from_dict),
}


@pytest.mark.parametrize("name", _FORMATS)
@settings(max_examples=300, deadline=None)
@given(seed=_SEEDS)
def test_what_is_wrong_in_one_place_is_a_line_or_is_read_as_it_is_written(name: str, seed: int) -> None:
    good, read = _FORMATS[name]
    table, change = spoilt(good, random.Random(seed), name)
    try:
        made, said = read(table), ""
    except SimtoolError as error:
        made, said = None, str(error)
    assert "\n" not in said
    if made is None:
        assert said
        assert not change.same, said
    else:
        written = json.dumps(made.to_dict())
        assert json.dumps(read(json.loads(written)).to_dict()) == written

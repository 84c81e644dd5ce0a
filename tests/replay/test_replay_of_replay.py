"""A replay of a replay is that replay: whatever the scenario changed, the new trace tells."""

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from simtool.replay.replay import replay
from simtool.replay.scenario import Arrivals, Scenario, recorded_controller
from simtool.replay.workload import Workload
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN, with_lag
from simtool.step.scheduler import Request
from tests.replay.synthetic import ONE_DEVICE, STREAMS, profile_of, random_costs, random_work, source_trace

PLACEMENTS = (*BUILT_IN.values(), with_lag(BUILT_IN["lag"], 3))
CONTROLLERS = (ControllerSettings(), ControllerSettings(LinearPredictor(0.5, 0.25, 0.001), 0.5, 0.01))
TIMES = ("steps", "rows", "events", "requests")

scenarios = st.builds(
    Scenario,
    placement=st.sampled_from(PLACEMENTS),
    concurrency=st.integers(1, 12),
    controller=st.sampled_from(CONTROLLERS),
    arrivals=st.sampled_from((Arrivals(), Arrivals("trace"), Arrivals("trace", 3e5), Arrivals("poisson", 1e6))),
    outcomes=st.sampled_from(("strict", "resample")),
    seed=st.integers(0, 3),
    kv_blocks=st.sampled_from((None, 2, 5)),
    stale_loss=st.sampled_from((0.0, 0.4)),
)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scenario=scenarios,
    executors=st.sampled_from((ONE_DEVICE, STREAMS)),
    recorded=st.integers(1, 4),
    details=st.sampled_from(({}, {"kv_blocks": 3}, {"kv_blocks": 9, "block_size": 4}, {"kv_blocks": None})),
    drawn=st.booleans(),
)
def test_the_same_scenario_again(seed, scenario, executors, recorded, details, drawn):
    work, profile = random_work(seed, 3, 9), profile_of(random_costs(seed), executors)
    work = replace(work, requests=tuple(replace(one, arrival_ns=i * 2_000) for i, one in enumerate(work.requests)))
    with tempfile.TemporaryDirectory() as folder:
        source = source_trace(Path(folder) / "source", work, recorded, **details)
        if drawn and any(one.total > 3 for one in work.requests):
            asked = tuple(Request(f"q{i}", 1 + i % 5, 1 + seed * i % 14, 900 * i) for i in range(9))
            source = Workload("made up", asked).drawn_from(source, 1)
        scenario = replace(scenario, kv_blocks=scenario.kv_blocks and max(scenario.kv_blocks, largest(source)))
        first = replay(source, profile, scenario)
        kept = first.save(Path(folder) / "first")
        again = replay(kept, profile, scenario)
        for name in TIMES:
            assert (
                again.tables[name]
                .sort(by := again.tables[name].columns[0], maintain_order=True)
                .equals(first.tables[name].sort(by, maintain_order=True))
            ), name
        if scenario.arrivals.kind == "closed" and not scenario.stale_loss:
            as_told = Scenario(kept.placement, kept.manifest.concurrency, recorded_controller(kept.manifest))
            told = replay(kept, profile, replace(as_told, outcomes=scenario.outcomes))
            assert told.tables["rows"].equals(first.tables["rows"])


def largest(source):
    """Blocks that the largest request needs, so that none is refused."""
    size = source.manifest.details.get("block_size", 16)
    asked = source.table("requests").select("prompt_tokens", "max_new_tokens").rows()
    return max(-(-(prompt + limit + source.manifest.sl + 1) // size) for prompt, limit in asked)

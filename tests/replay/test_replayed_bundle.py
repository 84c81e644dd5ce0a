"""A replay is a trace like any other: it passes the same checks, and can be replayed itself."""

import pytest

from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario, recorded_controller
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN
from simtool.trace.checks.check import check_trace
from simtool.trace.trace import open_trace
from tests.replay.synthetic import ONE_DEVICE, STREAMS, profile_of, random_costs, random_work, source_trace

CONTROLLER = ControllerSettings(LinearPredictor(0.5, 0.25, 0.001), draft_ms=0.5, min_gain=0.01)


@pytest.mark.parametrize("executors", [ONE_DEVICE, STREAMS])
@pytest.mark.parametrize("placement", sorted(BUILT_IN))
def test_passes_every_check(tmp_path, placement, executors):
    source = source_trace(tmp_path / "s", random_work(11, 4, 6))
    result = replay(source, profile_of(random_costs(11), executors), Scenario(BUILT_IN[placement], 3, CONTROLLER))
    trace = result.save(tmp_path / "r")
    assert check_trace(trace) == []


def test_manifest_tells_what_was_replayed(tmp_path):
    source = source_trace(tmp_path / "s", random_work(11, 4, 6))
    scenario = Scenario(BUILT_IN["lag"], 3, CONTROLLER, seed=4)
    replay(source, profile_of(random_costs(1)), scenario).save(tmp_path / "r")
    manifest = open_trace(tmp_path / "r").manifest
    assert (manifest.origin, manifest.concurrency, manifest.seed) == ("replayed", 3, 4)
    assert manifest.details["source"] == "s"
    assert manifest.details["scenario"]["placement"] == BUILT_IN["lag"].to_dict()
    assert manifest.details["profile"]["name"] == "synthetic"
    assert manifest.details["executors"] == ONE_DEVICE
    assert recorded_controller(manifest) == CONTROLLER


def test_a_replay_of_a_replay_is_the_same_replay(tmp_path):
    source = source_trace(tmp_path / "s", random_work(11, 4, 12))
    profile, scenario = profile_of(random_costs(11)), Scenario(BUILT_IN["lag-overlap"], 3, CONTROLLER)
    first = replay(source, profile, scenario)
    second = replay(first.save(tmp_path / "r"), profile, scenario)
    for name, table in first.tables.items():
        assert second.tables[name].equals(table)

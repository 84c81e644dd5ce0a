"""A replay that goes to disk as it runs is the one that is saved at its end."""

import pytest

from simtool.errors import TraceError
from simtool.replay import recorder
from simtool.replay.replay import replay, replay_and_tell
from simtool.replay.scenario import Scenario
from simtool.step.placement import BUILT_IN
from simtool.trace.checks.check import check_trace
from simtool.trace.schema import TABLES
from tests.replay.synthetic import STREAMS, profile_of, random_costs, random_work, source_trace

PROFILE = profile_of(random_costs(11), STREAMS)


@pytest.mark.parametrize("stretch", [1, 7, 4096])
def test_the_same_trace(tmp_path, monkeypatch, stretch):
    monkeypatch.setattr(recorder, "_STRETCH_STEPS", stretch)
    source = source_trace(tmp_path / "s", random_work(11, 4, 12))
    scenario = Scenario(BUILT_IN["lag-overlap"], 3)
    kept, _ = replay_and_tell(tmp_path / "to", source, PROFILE, scenario)
    saved = replay(source, PROFILE, scenario).save(tmp_path / "saved")
    for name in TABLES:
        assert kept.table(name).equals(saved.table(name)), name
    assert check_trace(kept) == []
    assert not (tmp_path / "to" / "parts").exists()
    assert {**kept.manifest.to_dict(), "tables": None} == {**saved.manifest.to_dict(), "tables": None}
    assert {name: facts.rows for name, facts in kept.manifest.tables.items()} == {
        name: facts.rows for name, facts in saved.manifest.tables.items()
    }


def test_a_replay_that_fails_leaves_nothing(tmp_path):
    work = random_work(11, 4, 12)
    missing = dict(list(work.outcomes.items())[: len(work.outcomes) // 2])
    source = source_trace(tmp_path / "s", type(work)(work.drafts, work.requests, missing))
    with pytest.raises(TraceError, match="has no outcome at anchor"):
        replay_and_tell(tmp_path / "to", source, PROFILE, Scenario(BUILT_IN["static"], 3))
    assert [entry.name for entry in tmp_path.iterdir()] == ["s"]

"""Both simulators on the same scenario, and nothing but the name of the one in the manifest may differ."""

from __future__ import annotations

from dataclasses import replace

from simtool.profile.profile import Profile
from simtool.replay.replay import Replay, replay
from simtool.replay.scenario import Scenario
from simtool.trace.trace import Trace


def replay_both(source: Trace, profile: Profile, scenario: Scenario) -> Replay:
    """Replay by both, hold every table, warning and detail equal, and return the compiled one."""
    read = replay(source, profile, scenario, simulator="simpy")
    compiled = replay(source, profile, scenario, simulator="compiled")
    for name, table in read.tables.items():
        assert compiled.tables[name].equals(table), name
    details = {**read.manifest.details, "simulator": "compiled"}
    assert compiled.manifest == replace(read.manifest, details=details)
    assert compiled.caveats == read.caveats
    return compiled

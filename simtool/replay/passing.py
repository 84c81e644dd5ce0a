"""A replay whose trace is looked at once and not kept: a large one lies on disk meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from simtool.profile.profile import Profile
from simtool.replay.caveats import Caveats
from simtool.replay.replay import replay, replay_and_tell
from simtool.replay.scenario import Scenario, SimulatorChoice
from simtool.trace.trace import Trace

#: Tokens to emit from which a replay goes through the disk: in memory a million take a gigabyte.
_MANY_TOKENS = 1 << 18


@contextmanager
def passing_replay(
    source: Trace,
    profile: Profile,
    scenario: Scenario,
    *,
    simulator: SimulatorChoice = "simpy",
    told: Mapping[str, object] | None = None,
) -> Iterator[tuple[Trace, Caveats]]:
    """Replay for as long as the context is; yield the trace and what its figures rest on.

    told: what the manifest's details hold besides. Raises as `replay` does, OutputError where the disk is full.
    """
    if int(source.columns("requests", "output_tokens")["output_tokens"].sum()) < _MANY_TOKENS:
        replayed = replay(source, profile, scenario, simulator=simulator)
        details = {**replayed.manifest.details, **(told or {})}
        made = replace(replayed, manifest=replace(replayed.manifest, details=details))
        yield made.trace(source.path), replayed.caveats
        return
    with TemporaryDirectory(prefix="simtool-") as folder:
        path = Path(folder) / source.path.name
        yield replay_and_tell(path, source, profile, scenario, simulator=simulator, told=told)

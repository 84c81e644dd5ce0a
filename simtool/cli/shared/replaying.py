"""The replays of one `simtool replay`: every placement under every seed, at the costs that a seed draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from simtool.cli.options import check_output, command_line
from simtool.cli.shared import console
from simtool.cli.shared.summary import TraceLine, line_of
from simtool.errors import ProfileError, UsageError

if TYPE_CHECKING:
    from simtool.profile.profile import Profile
    from simtool.progress import Expected
    from simtool.replay.controller_options import ControllerOptions
    from simtool.replay.scenario import Scenario, SimulatorChoice
    from simtool.replay.workload import Workload
    from simtool.step.placement import Placement
    from simtool.trace.trace import Trace


@dataclass(frozen=True)
class Outputs:
    """Where replayed traces go: one folder each, named after trace, placement and, where there are several, seed."""

    folder: Path
    trace: str
    seeds: range
    force: bool

    def path(self, placement: Placement, seed: int) -> Path:
        """Return where one replay goes."""
        return self.folder / f"{self.trace}-{placement.file_stem}{f'-seed{seed}' if len(self.seeds) > 1 else ''}"

    def check(self, placements: Sequence[Placement]) -> None:
        """Refuse to overwrite any of them unless forced, and a trace as the folder that traces are put into."""
        from simtool.trace.manifest import MANIFEST_NAME

        if (self.folder / MANIFEST_NAME).exists():
            raise UsageError(f"{self.folder} is a trace; give --out a folder to put the replayed traces into")
        for placement in placements:
            for seed in self.seeds:
                check_output(self.path(placement, seed), force=self.force)


@dataclass(frozen=True)
class Replayed:
    """Each placement's lines, one a seed. refused: a sentence for each placement that was left out."""

    lines: dict[str, list[TraceLine]] = field(default_factory=dict)
    refused: tuple[str, ...] = ()

    @property
    def all_lines(self) -> list[TraceLine]:
        """Every line, placement by placement."""
        return [line for found in self.lines.values() for line in found]


@dataclass(frozen=True)
class Replays:
    """What to replay. workload: served instead of the source's requests as recorded. base: all but placement, seed.

    asked: of the controller. added: replayed only to be compared with; left out where its costs are unknown, and never
    written. lenient: any placement whose costs are unknown is left out and told, not refused. refitted: each seed draws
    costs too.
    """

    source: Trace
    costs: Profile
    base: Scenario
    placements: Sequence[Placement]
    seeds: range
    workload: Workload | None
    lenient: bool
    refitted: bool
    simulator: SimulatorChoice
    asked: ControllerOptions
    added: Placement | None = None

    def run(self, outputs: Outputs | None) -> Replayed:
        """Run all, seed by seed."""
        lines: dict[str, list[TraceLine]] = {}
        refused: dict[str, str] = {}
        placements = [*([self.added] if self.added else ()), *self.placements]
        with console.progress("replaying", len(placements) * len(self.seeds), self._expected(placements)) as done:
            for seed in self.seeds:
                served = self.workload.drawn_from(self.source, seed) if self.workload else self.source
                for placement in placements:
                    scenario = replace(self.base, placement=placement, seed=seed)
                    kept = outputs if placement is not self.added else None
                    try:
                        lines.setdefault(placement.name, []).append(self._run(served, scenario, kept))
                    except ProfileError as error:
                        if self.added is not None and placement.name == self.added.name:
                            console.after(f"not compared with {placement.name}: {error}")
                        elif self.lenient:
                            refused[placement.name] = f"{placement.name}: not replayed: {error}"
                        else:
                            raise
                    done(sum(map(len, lines.values())))
        return Replayed({name: found for name, found in lines.items() if found}, tuple(refused.values()))

    def _expected(self, placements: Sequence[Placement]) -> Expected:
        from simtool.replay.profiling.expected import CountedReplays, expect

        served = [each.max_new_tokens for each in self.workload.requests] if self.workload else None
        counts = self.base.concurrency, len(placements), len(self.seeds)
        return expect([CountedReplays(self.source, *counts, self.simulator, served=served)])

    def _run(self, served: Trace, scenario: Scenario, outputs: Outputs | None) -> TraceLine:
        """Replay once and keep only its line: many seeds are many traces."""
        from simtool.replay.passing import passing_replay
        from simtool.replay.profiling.step_table import with_step_table
        from simtool.replay.replay import replay_and_tell

        costs = self.costs.refitted(scenario.seed) if self.refitted else self.costs
        scenario = with_step_table(served, self.costs, scenario, self.asked)
        told: dict[str, object] = {"command": command_line()}
        if self.refitted:
            told["refit"] = scenario.seed
        if outputs is None:
            with passing_replay(served, costs, scenario, simulator=self.simulator, told=told) as (trace, caveats):
                line = line_of(trace)
            return replace(line, run=replace(line.run, name=str(served.path)), caveats=caveats)
        path = outputs.path(scenario.placement, scenario.seed)
        trace, caveats = replay_and_tell(
            path, served, costs, scenario, force=outputs.force, simulator=self.simulator, told=told
        )
        return replace(line_of(trace), caveats=caveats)

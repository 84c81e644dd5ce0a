"""The replays of one `simtool replay`: every placement under every seed, then what they say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from simtool.cli.options import FINDING, check_output, command_line
from simtool.cli.shared import console
from simtool.cli.shared.differences import differences_of, print_differences
from simtool.cli.shared.repeats import print_repeats
from simtool.cli.shared.summary import TraceLine, line_of, print_lines
from simtool.errors import ProfileError, UsageError

if TYPE_CHECKING:
    from simtool.profile.profile import Profile
    from simtool.replay.caveats import Caveats
    from simtool.replay.scenario import Scenario, SimulatorChoice
    from simtool.replay.workload import Workload
    from simtool.step.placement import Placement
    from simtool.trace.trace import Trace


#: What the figures of a replay leave out.
BETWEEN_STEPS = (
    "steady tok/s and step leave out the time between steps (loop_gap); whole-run tok/s, TPOT and TTFT count it"
)


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
class Replays:
    """What to replay. workload: served instead of the source's requests as recorded. base: all but placement, seed.

    lenient: a placement whose costs are unknown is left out and told, not refused.
    """

    source: Trace
    costs: Profile
    base: Scenario
    placements: Sequence[Placement]
    seeds: range
    workload: Workload | None
    lenient: bool
    simulator: SimulatorChoice

    def run(self, outputs: Outputs | None) -> tuple[dict[str, list[TraceLine]], list[str]]:
        """Run all, seed by seed; return each placement's lines, and why others were left out."""
        lines: dict[str, list[TraceLine]] = {}
        refused: dict[str, str] = {}
        with console.progress("replaying", total=len(self.placements) * len(self.seeds)) as done:
            for seed in self.seeds:
                served = self.workload.drawn_from(self.source, seed) if self.workload else self.source
                for placement in self.placements:
                    scenario = replace(self.base, placement=placement, seed=seed)
                    try:
                        lines.setdefault(placement.name, []).append(self._run(served, scenario, outputs))
                    except ProfileError as error:
                        if not self.lenient:
                            raise
                        refused[placement.name] = f"{placement.name}: not replayed: {error}"
                    done(sum(map(len, lines.values())))
        return {name: found for name, found in lines.items() if found}, list(refused.values())

    def _run(self, served: Trace, scenario: Scenario, outputs: Outputs | None) -> TraceLine:
        """Replay once and keep only its line: many seeds are many traces."""
        from simtool.replay.replay import replay, replay_and_tell

        if outputs is None:
            replayed = replay(served, self.costs, scenario, simulator=self.simulator)
            return replace(line_of(replayed.trace(served.path)), caveats=replayed.caveats)
        path, command = outputs.path(scenario.placement, scenario.seed), command_line()
        trace, caveats = replay_and_tell(
            path, served, self.costs, scenario, force=outputs.force, simulator=self.simulator, command=command
        )
        return replace(line_of(trace), caveats=caveats)


def report(
    lines: dict[str, list[TraceLine]], refused: Sequence[str], about: str, *, json: bool, verbose: bool = False
) -> None:
    """Print the verdicts and the numbers, then warnings and refusals; exit 1 when something was refused.

    about: what the replays have in common, said behind them. verbose: list each cost that was extrapolated, not only
    how far they were.
    """
    differences = differences_of({name: [line.run for line in found] for name, found in lines.items()})
    if differences and not json:
        print_differences(differences)
    if any(len(found) > 1 for found in lines.values()):
        print_repeats(lines, differences, json=json)
    elif lines:
        print_lines([line for found in lines.values() for line in found], differences, json=json)
    for line in filter(None, (about, BETWEEN_STEPS if lines else "")):
        console.note(line)
    _warn({name: found[0].caveats for name, found in lines.items() if found[0].caveats}, verbose=verbose)
    for name, found in lines.items():
        if len(found) == 1 and found[0].drawn:
            console.note(f"{name}: one draw of many; --seeds 10 shows how much the draw matters")
    for line in refused:
        console.note(line)
    if refused:
        raise typer.Exit(FINDING)


def _warn(caveats: Mapping[str, Caveats], *, verbose: bool) -> None:
    """Print each warning once with the placements that it is about; what was extrapolated, for all of them together."""
    from simtool.replay.caveats import Caveats, farthest

    told: dict[str, list[str]] = {}
    for name, each in caveats.items():
        for warning in (each if verbose else replace(each, beyond=())).lines():
            told.setdefault(warning, []).append(name)
    for warning, names in told.items():
        console.note(f"warning: {', '.join(names)}: {warning}")
    if not verbose:
        beyond = farthest(part for each in caveats.values() for part in each.beyond)
        for line in Caveats(beyond=beyond).short():
            console.note(f"warning: {line} (--verbose lists them)")

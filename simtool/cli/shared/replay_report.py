"""What `simtool replay` prints: the answer, one table, then what the figures rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import typer

from simtool.analysis.comparison.headline import baseline_of
from simtool.cli.options import FINDING
from simtool.cli.shared import console
from simtool.cli.shared.differences import against_baseline, as_record, as_records, paired
from simtool.cli.shared.repeats import changes_record, means_record, print_means
from simtool.cli.shared.summary import RunsLine, TraceLine, print_runs
from simtool.cli.shared.summary import as_record as run_record

if TYPE_CHECKING:
    from simtool.analysis.comparison.against_run import AgainstRun
    from simtool.analysis.comparison.comparison import Comparison
    from simtool.analysis.comparison.judged import KnownLive
    from simtool.cli.shared.replaying import Replayed
    from simtool.replay.caveats import Caveats
    from simtool.report.terminal.numbers import Number

#: What the figures of a replay leave out.
BETWEEN_STEPS = (
    "tok/s is of decode steps at full occupancy, step of all decode steps, both without the time between steps "
    "(loop_gap); whole-run tok/s, TPOT and TTFT count it (--verbose shows all)"
)


@dataclass(frozen=True)
class ReplayReport:
    """found: the replays; without: the same without the changes of --set, None where there are none. changes: them.

    about: what the replays have in common. modeled: what the verdicts open with: "modeled", and on whose machine.
    asked: the placements that were asked for. live: what live runs showed of them. run: the order that the source had,
    held against it; None: not replayed.
    """

    found: Replayed
    without: Replayed | None
    changes: Sequence[str]
    about: str
    modeled: str
    asked: Sequence[str]
    live: KnownLive | None = None
    run: AgainstRun | None = None

    def differences(self) -> dict[str, Comparison]:
        """Every placement against the baseline."""
        return against_baseline({name: [line.run for line in lines] for name, lines in self.found.lines.items()})

    def what_ifs(self) -> dict[str, Comparison]:
        """Every placement with the changes against itself without."""
        if self.without is None:
            return {}
        before = self.without.lines
        changed = f"with {', '.join(self.changes)}"
        return paired(
            {
                f"{name} {changed}": (name, [line.run for line in before[name]], [line.run for line in lines])
                for name, lines in self.found.lines.items()
                if name in before
            }
        )

    def show(self, *, json: bool, verbose: bool) -> None:
        """Print it; exit 1 when a placement was left out."""
        if json:
            self._emit()
        elif self.found.lines:
            self._print(verbose=verbose)
        for line in filter(None, (self.about, BETWEEN_STEPS if self.found.lines else "")):
            console.after(line)
        lines = self.found.lines
        _warn({name: each[0].caveats for name, each in lines.items() if each[0].caveats}, self.changes, verbose=verbose)
        for name, each in lines.items():
            if len(each) == 1 and each[0].drawn:
                console.after(f"{name}: one draw of many; --seeds 10 shows how much the draw matters")
        for line in self.found.refused:
            console.after(line)
        if self.found.refused:
            raise typer.Exit(FINDING)

    def _emit(self) -> None:
        from simtool.cli.documents.of_replays import AgainstRunRecord, ReplayDocument
        from simtool.cli.documents.record import record

        lines = self.found.lines
        document = ReplayDocument(
            runs=[run_record(line) for line in self.found.all_lines],
            baseline=baseline_of(list(lines)) if lines else None,
            differences=[as_record(each) for each in self.differences().values()],
            live=as_records(self.live),
            what_ifs=[as_record(each) for each in self.what_ifs().values()],
            without=[run_record(line) for line in self.without.all_lines] if self.without else [],
            intervals=means_record(lines),
            changes=changes_record(lines) if lines else {},
            refused=list(self.found.refused),
            against_run=None if self.run is None else record(AgainstRunRecord, self.run),
        )
        console.emit(document)

    def _print(self, *, verbose: bool) -> None:
        from simtool.report.terminal.live_first import live_first

        differences, what_ifs = self.differences(), self.what_ifs()
        for comparison in what_ifs.values():
            if comparison.ratio != 1.0 and comparison.baseline in self.asked:
                console.say(f"{self.modeled}: {_what_if(comparison)}", style="bold")
        opening = live_first(self.live, {name: each.ratio for name, each in differences.items()})
        changed = f", with {', '.join(self.changes)}" if self.changes else ""
        for comparison in differences.values():
            console.say(f"{opening}{self.modeled}{changed}: {comparison.verdict}", style="bold")
            opening = ""
        if self.run is not None:
            console.say(self.run.sentence, style="" if differences else "bold")
        if self.without is not None and not verbose:
            self._print_both(what_ifs)
            return
        rows = [RunsLine(name, each, differences.get(name)) for name, each in self.found.lines.items()]
        if verbose and any(len(each) > 1 for each in self.found.lines.values()):
            print_means(self.found.lines)
        else:
            print_runs(rows, "placement", verbose=verbose)

    def _print_both(self, what_ifs: Mapping[str, Comparison]) -> None:
        """One table: each placement without and with the changes, and the difference."""
        from simtool.report.terminal.numbers import STEADY, STEP, WHOLE_RUN
        from simtool.report.terminal.tables import table

        assert self.without is not None
        both = [*self.found.all_lines, *self.without.all_lines]
        speed = STEADY if all(STEADY.get(line.summary) is not None for line in both) else WHOLE_RUN
        changed = {each.baseline: each for each in what_ifs.values()}
        rows = []
        for name, lines in self.found.lines.items():
            before = self.without.lines.get(name, [])
            ratio = f"{(changed[name].ratio - 1) * 100:+.1f} %" if name in changed else "-"
            rows.append((name, *_both(speed, before, lines), ratio, *_both(STEP, before, lines)))
        heads = ("placement", speed.head, "with", "change", "step", "with")
        console.show(table(f"without, and with {', '.join(self.changes)}", heads, rows))


def _what_if(comparison: Comparison) -> str:
    """What the changes are worth to one placement, also where its steps are too alike for an interval."""
    interval = f"95 % interval {comparison.interval}"
    if comparison.found.bounds is None:
        interval = f"no interval: {comparison.method}"
    far = f"; {comparison.extrapolation.where}" if comparison.extrapolation is not None else ""
    change = f"{(comparison.ratio - 1) * 100:+.1f} %"
    return f"{comparison.other}: {change} tokens/s over {comparison.baseline} ({interval}){far}"


def _both(number: Number, before: Sequence[TraceLine], after: Sequence[TraceLine]) -> tuple[str, str]:
    first, second = (number.text(*(line.summary for line in lines)) for lines in (before, after))
    return first, second


def _warn(caveats: Mapping[str, Caveats], changes: Sequence[str], *, verbose: bool) -> None:
    """Print each warning once with the placements that it is about; what was extrapolated, for all of them together.

    changes: told already, in the table's title.
    """
    from simtool.replay.caveats import Caveats
    from simtool.step.beyond import farthest

    told: dict[str, list[str]] = {}
    for name, each in caveats.items():
        unsaid = replace(each, changes=tuple(change for change in each.changes if change not in changes))
        for warning in (unsaid if verbose else replace(unsaid, beyond=())).lines():
            told.setdefault(warning, []).append(name)
    for warning, names in told.items():
        console.after(f"warning: {', '.join(names)}: {warning}")
    if not verbose:
        beyond = farthest(part for each in caveats.values() for part in each.beyond)
        for line in Caveats(beyond=beyond).short():
            console.after(f"warning: {line} (--verbose lists them)")

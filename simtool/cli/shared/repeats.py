"""What `simtool replay --seeds N` finds beyond a line each: means over seeds, and paired changes, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from simtool.analysis.comparison.headline import baseline_of
from simtool.cli.shared import console
from simtool.cli.shared.summary import TraceLine

if TYPE_CHECKING:
    from simtool.cli.documents.parts import IntervalRecord
    from simtool.report.terminal.numbers import Number
    from simtool.stats.interval import Interval

#: Placement -> its replays, one a seed, the same seeds for all.
Repeats = Mapping[str, Sequence[TraceLine]]
_Intervals = dict[str, dict[str, "IntervalRecord | None"]]


def means_record(repeats: Repeats) -> _Intervals:
    """Return, for machines, each placement's mean of each figure over seeds; nothing for one seed."""
    return {name: _machine(_means(repeats, name)) for name in repeats} if _several(repeats) else {}


def changes_record(repeats: Repeats) -> _Intervals:
    """Return, for machines, each placement's change of each figure against the baseline's, paired by seed."""
    if not _several(repeats):
        return {}
    baseline = baseline_of(list(repeats))
    return {name: _machine(_changes(repeats, name, baseline)) for name in repeats if name != baseline}


def print_means(repeats: Repeats) -> None:
    """Print every figure's mean over seeds with its interval, and its change against the baseline."""
    baseline = baseline_of(list(repeats))
    means = {name: [_text(n, each) for n, each in _means(repeats, name).items()] for name in repeats}
    _print(f"mean over {len(repeats[baseline])} seeds, 95 % intervals", repeats, means)
    others = [name for name in repeats if name != baseline]
    changes = {name: [_percent(each) for each in _changes(repeats, name, baseline).values()] for name in others}
    if changes:
        _print(f"change against {baseline}, paired by seed", repeats, changes)


def _several(repeats: Repeats) -> bool:
    return any(len(lines) > 1 for lines in repeats.values())


def _numbers(repeats: Repeats) -> Sequence[Number]:
    from simtool.report.terminal.numbers import NUMBERS, WAITS

    waits = any(line.open_loop for lines in repeats.values() for line in lines)
    return (*NUMBERS, *WAITS) if waits else NUMBERS


def _means(repeats: Repeats, name: str) -> dict[Number, Interval | None]:
    from simtool.stats.student import known_mean_interval

    draws = _draws(repeats[name])
    return {
        n: known_mean_interval([n.get(line.summary) for line in repeats[name]], draws=draws) for n in _numbers(repeats)
    }


def _changes(repeats: Repeats, name: str, baseline: str) -> dict[Number, Interval | None]:
    from simtool.stats.student import relative_change

    def values(of: str, number: Number) -> list[float | None]:
        return [number.get(line.summary) for line in repeats[of]]

    draws = _draws(repeats[name])
    return {n: relative_change(values(baseline, n), values(name, n), draws=draws) for n in _numbers(repeats)}


def _draws(lines: Sequence[TraceLine]) -> bool:
    """Whether each is priced at a draw of what the costs may be."""
    return all(line.run.refitted for line in lines)


def _machine(intervals: Mapping[Number, Interval | None]) -> dict[str, IntervalRecord | None]:
    from simtool.cli.documents.parts import IntervalRecord
    from simtool.cli.documents.record import record

    return {number.key: record(IntervalRecord, each) if each else None for number, each in intervals.items()}


def _text(number: Number, each: Interval | None) -> str:
    return f"{number.write(each.mean)} ± {number.write(each.half)}" if each and each.half is not None else "-"


def _percent(each: Interval | None) -> str:
    return f"{each.mean:+.2%} ± {each.half:.2%}" if each and each.half is not None else "-"


def _print(title: str, repeats: Repeats, cells: Mapping[str, Sequence[str]]) -> None:
    from simtool.report.terminal.tables import table

    columns = ("placement", *(number.name for number in _numbers(repeats)))
    console.show(table(title, columns, [(name, *texts) for name, texts in cells.items()]))

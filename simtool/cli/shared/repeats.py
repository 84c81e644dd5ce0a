"""What `simtool replay --seeds N` prints: each placement's mean over seeds, and paired differences, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from simtool.analysis.comparison.headline import baseline_of
from simtool.cli.shared import console
from simtool.cli.shared.differences import differences_json
from simtool.cli.shared.summary import TraceLine, as_json, tell_why_not_steady

if TYPE_CHECKING:
    from simtool.analysis.comparison.verdict import Verdict
    from simtool.report.terminal.numbers import Number
    from simtool.stats.interval import Interval

#: Placement -> its replays, one a seed, the same seeds for all.
Repeats = Mapping[str, Sequence[TraceLine]]


def print_repeats(repeats: Repeats, differences: Verdict | None = None, *, json: bool) -> None:
    """Print means over seeds with 95 % intervals, then every placement's change against the baseline, seed by seed."""
    baseline = baseline_of(list(repeats))
    others = [name for name in repeats if name != baseline]
    if json:
        document = {
            "runs": [as_json(line) for lines in repeats.values() for line in lines],
            "intervals": {name: _machine(_means(repeats, name)) for name in repeats},
            "baseline": baseline,
            "differences": differences_json(differences),
            "changes": {name: _machine(_changes(repeats, name, baseline)) for name in others},
        }
        console.emit_json(document)
        return
    means = {name: [_text(n, each) for n, each in _means(repeats, name).items()] for name in repeats}
    _print(f"mean over {len(repeats[baseline])} seeds, 95 % intervals", repeats, means)
    changes = {name: [_percent(each) for each in _changes(repeats, name, baseline).values()] for name in others}
    if changes:
        _print(f"change against {baseline}, paired by seed", repeats, changes)
    for lines in repeats.values():
        tell_why_not_steady(min(lines, key=lambda line: line.summary.full_batch))


def _numbers(repeats: Repeats) -> Sequence[Number]:
    from simtool.report.terminal.numbers import NUMBERS, WAITS

    waits = any(line.open_loop for lines in repeats.values() for line in lines)
    return (*NUMBERS, *WAITS) if waits else NUMBERS


def _means(repeats: Repeats, name: str) -> dict[Number, Interval | None]:
    from simtool.stats.student import known_mean_interval

    return {n: known_mean_interval([n.get(line.summary) for line in repeats[name]]) for n in _numbers(repeats)}


def _changes(repeats: Repeats, name: str, baseline: str) -> dict[Number, Interval | None]:
    from simtool.stats.student import relative_change

    def values(of: str, number: Number) -> list[float | None]:
        return [number.get(line.summary) for line in repeats[of]]

    return {n: relative_change(values(baseline, n), values(name, n)) for n in _numbers(repeats)}


def _machine(intervals: Mapping[Number, Interval | None]) -> dict[str, object]:
    return {number.key: asdict(each) | {"half": each.half} if each else None for number, each in intervals.items()}


def _text(number: Number, each: Interval | None) -> str:
    return f"{number.write(each.mean)} ± {number.write(each.half)}" if each and each.half is not None else "-"


def _percent(each: Interval | None) -> str:
    return f"{each.mean:+.2%} ± {each.half:.2%}" if each and each.half is not None else "-"


def _print(title: str, repeats: Repeats, cells: Mapping[str, Sequence[str]]) -> None:
    from simtool.report.terminal.tables import table

    columns = ("placement", "outcomes", *(number.name for number in _numbers(repeats)))
    rows = [(name, repeats[name][0].facts["outcomes"], *texts) for name, texts in cells.items()]
    console.show(table(title, columns, rows, numbers_from=2))

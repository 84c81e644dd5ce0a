"""The table that commands print about traces: one line each, its origin first, so that nobody mixes them up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simtool.cli.shared import console
from simtool.cli.shared.differences import differences_json

if TYPE_CHECKING:
    from simtool.analysis.comparison.runs import Run
    from simtool.analysis.comparison.verdict import Verdict
    from simtool.analysis.metrics import Summary
    from simtool.replay.caveats import Caveats
    from simtool.report.terminal.numbers import Number
    from simtool.trace.trace import Trace


@dataclass(frozen=True)
class TraceLine:
    """One trace in a table. more: facts for machines. open_loop: its requests arrived over time. run: its steps.
    drawn: its outcomes are one draw of many. caveats: of a replay made just now.
    """

    facts: Mapping[str, str]
    more: Mapping[str, object]
    summary: Summary
    open_loop: bool
    run: Run
    drawn: bool = False
    caveats: Caveats | None = None


def print_summaries(traces: Sequence[Trace], *, json: bool) -> None:
    """Print throughput, TPOT, acceptance, step time, device idle and exposed host work of each trace."""
    print_lines([line_of(trace) for trace in traces], json=json)


def line_of(trace: Trace) -> TraceLine:
    """Summarise a trace; a replay's facts say how far its outcomes can be trusted."""
    from simtool.analysis.comparison.runs import run_of
    from simtool.analysis.metrics import summarise_trace
    from simtool.trace.manifest import PRICED_ORIGINS

    manifest = trace.manifest
    policy = trace.placement.name if manifest.placement is not None else "-"
    facts = {"bundle": trace.path.name, "origin": manifest.origin, "placement": policy}
    more: dict[str, object] = {}
    if manifest.origin in PRICED_ORIGINS:
        facts["outcomes"] = manifest.replay.outcomes or "-"
        names = ("anchors_looked_up", "anchors_substituted", "workload", "bootstrap", "synthetic")
        more = {name: manifest.details[name] for name in names if name in manifest.details}
        more |= {"seed": manifest.seed, "warnings": manifest.warnings}
    return TraceLine(
        facts=facts,
        more=more,
        summary=summarise_trace(trace),
        open_loop=arrived_over_time(trace),
        run=run_of(trace),
        drawn=manifest.drawn,
    )


def arrived_over_time(trace: Trace) -> bool:
    """Return whether some request came after the first step began: a closed loop queues them all before it."""
    last = trace.columns("requests", "arrival_ns")["arrival_ns"].max()
    first = trace.columns("steps", "start_ns")["start_ns"].min()
    return isinstance(last, int) and isinstance(first, int) and last > first


def print_lines(lines: Sequence[TraceLine], differences: Verdict | None = None, *, json: bool) -> None:
    """Print a line a trace; how long requests waited comes in a table of its own, where they arrived over time.

    differences: between the lines, for machines.
    """
    from simtool.report.terminal.numbers import NUMBERS, WAITS

    if json:
        told = differences_json(differences)
        console.emit_json([as_json(line) | {"difference": told.get(line.facts["placement"])} for line in lines])
        return
    _print(lines, NUMBERS)
    if any(line.open_loop for line in lines):
        _print(lines, WAITS)
    for line in lines:
        tell_why_not_steady(line)


def tell_why_not_steady(line: TraceLine) -> None:
    """Say why a line has no steady tok/s, where it has none."""
    found = line.summary
    if not found.full:
        console.note(
            f"{line.facts['bundle']}, {line.facts['placement']}: no steady tok/s, the peak batch was "
            f"{found.full_batch} of {found.slots} slots"
        )


def as_json(line: TraceLine) -> dict[str, object]:
    """Return a line for machines: facts and every number."""
    from simtool.report.terminal.numbers import NUMBERS, WAITS

    numbers = {number.key: number.get(line.summary) for number in (*NUMBERS, *WAITS)}
    return {**line.facts, **line.more, **numbers, "emitted_length": line.summary.emitted_length}


def _print(lines: Sequence[TraceLine], numbers: Sequence[Number]) -> None:
    from simtool.report.terminal.tables import table

    heads = list(dict.fromkeys(name for line in lines for name in line.facts))
    rows = [
        (*(line.facts.get(head, "-") for head in heads), *(number.text(line.summary) for number in numbers))
        for line in lines
    ]
    named = ("trace" if head == "bundle" else head for head in heads)  # the key in JSON is older than the word
    columns = (*named, *(number.name for number in numbers))
    console.show(table("", columns, rows, numbers_from=len(heads)))

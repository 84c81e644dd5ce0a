"""What commands print of traces: a line each, narrow enough for 80 columns; all figures under --verbose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simtool.cli.shared import console

if TYPE_CHECKING:
    from simtool.analysis.comparison.comparison import Comparison
    from simtool.analysis.comparison.runs import Run
    from simtool.analysis.metrics import Summary
    from simtool.cli.documents.parts import RunRecord
    from simtool.replay.caveats import Caveats
    from simtool.trace.trace import Trace


@dataclass(frozen=True)
class TraceLine:
    """One trace. trace: its name. more: facts for machines. open_loop: its requests arrived over time. run: its steps.
    drawn: its outcomes are one draw of many. caveats: of a replay made just now.
    """

    trace: str
    origin: str
    placement: str
    more: Mapping[str, object]
    summary: Summary
    open_loop: bool
    run: Run
    drawn: bool = False
    caveats: Caveats | None = None


@dataclass(frozen=True)
class RunsLine:
    """One line of a table: runs of one setting. change: against the baseline, None where there is nothing to tell."""

    name: str
    lines: Sequence[TraceLine]
    change: Comparison | None = None


def print_summaries(traces: Sequence[Trace], *, json: bool) -> None:
    """Print, for each trace that was recorded, its throughput, TPOT, acceptance length, step time and exposed host."""
    lines = [line_of(trace) for trace in traces]
    if json:
        from simtool.cli.documents.of_traces import RecordDocument

        console.emit(RecordDocument(runs=[as_record(line) for line in lines]))
        return
    print_runs([RunsLine(line.trace, [line]) for line in lines], "trace")


def line_of(trace: Trace) -> TraceLine:
    """Summarise a trace; a replay's facts say how far its outcomes can be trusted."""
    from simtool.analysis.comparison.runs import run_of
    from simtool.analysis.metrics import summarise_trace
    from simtool.trace.manifest import PRICED_ORIGINS

    manifest = trace.manifest
    counted = manifest.details.get("policy_counters")
    more: dict[str, object] = {"policy_counters": counted} if counted is not None else {}
    if manifest.origin in PRICED_ORIGINS:
        names = ("anchors_looked_up", "anchors_substituted", "workload", "bootstrap", "synthetic")
        more |= {name: manifest.details[name] for name in names if name in manifest.details}
        more |= {"outcomes": manifest.replay.outcomes, "seed": manifest.seed, "warnings": manifest.warnings}
    return TraceLine(
        trace=trace.path.name,
        origin=manifest.origin,
        placement=trace.placement.name if manifest.placement is not None else "-",
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


def print_runs(rows: Sequence[RunsLine], what: str, *, verbose: bool = False) -> None:
    """Print a line for each row, as narrow as it can be; under --verbose every figure of it.

    what: heads the first column. Requests that arrived over time have their TTFT shown, and not the exposed host.
    """
    from simtool.report.terminal.numbers import NUMBERS, SHORT, SHORT_HEADS, STEADY, WAITS, WHOLE_RUN
    from simtool.report.terminal.tables import table

    waits = any(line.open_loop for row in rows for line in row.lines)
    known = all(STEADY.get(line.summary) is not None for row in rows for line in row.lines)
    numbers = (SHORT[0], WAITS[0], *WAITS[2:]) if waits else SHORT
    shown = (*NUMBERS, *(WAITS if waits else ())) if verbose else (STEADY if known else WHOLE_RUN, *numbers)
    changes = any(row.change for row in rows)
    repeated = any(len(row.lines) > 1 for row in rows)
    heads = [number.name if verbose else number.head for number in shown]
    cells = [[number.text(*(line.summary for line in row.lines)) for number in shown] for row in rows]
    if changes:
        heads.insert(1, "change")
        for row, texts in zip(rows, cells, strict=True):
            texts.insert(1, f"{(row.change.ratio - 1) * 100:+.1f} %" if row.change else "-")
    counts = [(str(len(row.lines)),) if repeated else () for row in rows]
    columns = (what, *(("runs",) if repeated else ()), *heads)
    body = [(row.name, *count, *texts) for row, count, texts in zip(rows, counts, cells, strict=True)]
    console.show(table(_outcomes(rows), columns, body, numbers_from=1))
    if not verbose and not waits:
        console.after(SHORT_HEADS)
    for row in rows:
        for line in row.lines:
            tell_why_not_steady(line)


def _outcomes(rows: Sequence[RunsLine]) -> str:
    """How far replayed tokens can be trusted, where they are not all the recorded ones."""
    told: dict[str, list[str]] = {}
    for row in rows:
        for words in dict.fromkeys(str(line.more["outcomes"]) for line in row.lines if line.more.get("outcomes")):
            told.setdefault(words, []).append(row.name)
    if set(told) <= {"exact"}:
        return ""
    if len(told) == 1:
        return f"outcomes: {next(iter(told))}"
    return "outcomes: " + "; ".join(f"{', '.join(names)}: {words}" for words, names in told.items())


def tell_why_not_steady(line: TraceLine) -> None:
    """Say why a line has no steady tok/s, where it has none."""
    found = line.summary
    if not found.full:
        console.after(
            f"{line.trace}, {line.placement}: no steady tok/s, the peak batch was "
            f"{found.full_batch} of {found.slots} slots"
        )


def as_record(line: TraceLine) -> RunRecord:
    """Return a line for machines: facts and every number."""
    from simtool.cli.documents.parts import RunRecord
    from simtool.cli.documents.record import record
    from simtool.report.terminal.numbers import NUMBERS, WAITS

    numbers = {number.key: number.get(line.summary) for number in (*NUMBERS, *WAITS)}
    return record(RunRecord, line, line.more, numbers, emitted_length=line.summary.emitted_length)

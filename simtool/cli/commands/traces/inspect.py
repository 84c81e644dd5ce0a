"""`simtool inspect`: what a trace holds, and whether it contradicts itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from simtool.cli.options import FINDING, JsonFlag, Traces
from simtool.cli.shared import console
from simtool.units import format_ns

if TYPE_CHECKING:
    from simtool.cli.documents.of_traces import InspectedTrace
    from simtool.trace.checks.check import Finding
    from simtool.trace.trace import Trace


def inspect(traces: Traces, json: JsonFlag = False) -> None:
    """Show what a trace holds and check every invariant. Exit 1 on an error or a warning, not on a note."""
    from simtool.trace.checks.check import Severity, check_stored
    from simtool.trace.trace import open_trace

    inspected = [(trace, check_stored(trace)) for trace in map(open_trace, traces)]
    if json:
        from simtool.cli.documents.of_traces import InspectDocument

        console.emit(InspectDocument(traces=[_as_record(trace, findings) for trace, findings in inspected]))
    else:
        for trace, findings in inspected:
            _print(trace, findings)
    if any(finding.severity != Severity.NOTE for _, findings in inspected for finding in findings):
        raise typer.Exit(FINDING)


def _rows(trace: Trace) -> dict[str, int | None]:
    """Rows by table; None for one that cannot be read, which is among the findings."""
    from simtool.errors import TraceError
    from simtool.trace.schema import TABLES

    rows: dict[str, int | None] = {}
    for name in TABLES:
        try:
            rows[name] = trace.height(name)
        except TraceError:
            rows[name] = None
    return rows


def _as_record(trace: Trace, findings: list[Finding]) -> InspectedTrace:
    from simtool.cli.documents.of_traces import FindingRecord, InspectedTrace
    from simtool.cli.documents.record import record

    found = [record(FindingRecord, finding) for finding in findings]
    return record(
        InspectedTrace, trace=str(trace.path), manifest=trace.manifest.to_dict(), rows=_rows(trace), findings=found
    )


def _print(trace: Trace, findings: list[Finding]) -> None:
    from simtool.report.terminal.tables import table
    from simtool.trace.schema import TABLES

    counted = _rows(trace)
    console.say(f"{trace.path}: {_answer(counted, findings)}", style="bold")
    for name, value in _facts(trace):
        console.say(f"  {name:<11} {value}")
    rows = [(name, TABLES[name].row, "unreadable" if n is None else f"{n:,}") for name, n in counted.items()]
    console.show(table("", ("table", "a row is", "rows"), rows, numbers_from=2))
    for finding in findings:
        console.say(str(finding))


def _answer(rows: Mapping[str, int | None], findings: list[Finding]) -> str:
    """Whether the trace is sound, and what can be done with it."""
    from simtool.trace.checks.check import Severity

    counts = Counter(finding.severity for finding in findings)
    wrong = [f"{counts[kind]} {kind}{'s' if counts[kind] > 1 else ''}" for kind in Severity if counts[kind]]
    if counts[Severity.ERROR] or counts[Severity.WARNING]:
        return f"{', '.join(wrong)}, listed below"
    if rows["outcomes"]:
        use = "it can be replayed under any placement"
    elif rows["rows"]:
        use = "it can be compared; simtool fill adds what replays of other placements need"
    elif rows["events"]:
        use = "it holds a profile's events only: costs can be seen, nothing replayed"
    else:
        use = "it holds requests only, which replay --requests serves"
    return f"every check holds, and {use}" + (f" ({', '.join(wrong)}, below)" if wrong else "")


def _facts(trace: Trace) -> list[tuple[str, str]]:
    m = trace.manifest
    facts = [
        ("origin", f"{m.origin}, {'complete' if m.complete else 'INCOMPLETE'}"),
        ("engine", f"{m.engine} {m.engine_version}"),
        ("device", f"{m.device}: {m.device_name}"),
    ]
    if m.origin != "imported":
        name = (m.placement or {}).get("name")
        prompts = "" if m.prompt_seed is None else f", prompts of seed {m.prompt_seed}"
        run = f"{m.algorithm}, SL {m.sl}, concurrency {m.concurrency}, placement {name}, seed {m.seed}{prompts}"
        facts.append(("run", run))
        facts.append(("models", ", ".join(f"{role} {model.get('id')}" for role, model in m.models.items()) or "-"))
    return [*facts, ("time span", _span(trace))]


def _span(trace: Trace) -> str:
    from simtool.errors import TraceError

    try:
        events = trace.columns("events", "start_ns", "end_ns")
    except TraceError:
        return "-"
    start, end = events["start_ns"].min(), events["end_ns"].max()
    return format_ns(end - start) if isinstance(start, int) and isinstance(end, int) else "-"

"""`simtool inspect`: what a trace holds, and whether it contradicts itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from simtool.cli.options import FINDING, JsonFlag, Traces
from simtool.cli.shared import console
from simtool.units import format_ns

if TYPE_CHECKING:
    from simtool.trace.checks.check import Finding
    from simtool.trace.trace import Trace


def inspect(traces: Traces, json: JsonFlag = False) -> None:
    """Show what a trace holds and check every invariant. Exit 1 on an error or a warning, not on a note."""
    from simtool.trace.checks.check import Severity, check_stored
    from simtool.trace.trace import open_trace

    inspected = [(trace, check_stored(trace)) for trace in map(open_trace, traces)]
    if json:
        console.emit_json([_as_json(trace, findings) for trace, findings in inspected])
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


def _as_json(trace: Trace, findings: list[Finding]) -> dict[str, object]:
    found = [{name: getattr(f, name) for name in ("severity", "table", "message", "count", "first")} for f in findings]
    return {
        "bundle": str(trace.path),
        "manifest": trace.manifest.to_dict(),
        "rows": _rows(trace),
        "findings": found,
    }


def _print(trace: Trace, findings: list[Finding]) -> None:
    from simtool.report.terminal.tables import table
    from simtool.trace.schema import TABLES

    console.say(str(trace.path), style="bold")
    for name, value in _facts(trace):
        console.say(f"  {name:<11} {value}")
    rows = [(name, TABLES[name].row, "unreadable" if n is None else f"{n:,}") for name, n in _rows(trace).items()]
    console.show(table("", ("table", "a row is", "rows"), rows, numbers_from=2))
    for finding in findings:
        console.say(str(finding))
    if not findings:
        console.say("no findings: every check holds")


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

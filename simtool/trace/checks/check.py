"""Does a trace contradict itself? Every invariant of the trace, checked, with counts and a first example."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from simtool.errors import PlacementError, TraceError
from simtool.trace.checks.events import check_events
from simtool.trace.checks.finding import Finding, Severity
from simtool.trace.checks.outcomes import check_outcomes
from simtool.trace.checks.requests import check_requests
from simtool.trace.checks.rows import check_rows
from simtool.trace.checks.steps import check_steps
from simtool.trace.folder import table_files
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace

__all__ = ["Finding", "Severity", "check_trace"]

#: The rules, in the order of the tables in the registry.
_CHECKS: tuple[Callable[[Trace], Iterator[Finding]], ...] = (
    check_requests,
    check_steps,
    check_rows,
    check_events,
    check_outcomes,
)


def check_trace(trace: Trace) -> list[Finding]:
    """Return what is wrong with a trace or worth knowing of it; errors first, then in the order of the tables.

    A table that cannot be read is an error among the findings, and the checks that need it are left out.
    """
    findings = list(_manifest(trace))
    damaged = list(_unreadable(trace))
    if damaged:
        return [*damaged, *findings]
    for check in _CHECKS:
        findings.extend(check(trace))
    return sorted(findings, key=lambda finding: list(Severity).index(finding.severity))


def _manifest(trace: Trace) -> Iterator[Finding]:
    if not trace.manifest.complete:
        yield Finding(Severity.WARNING, "manifest", _incomplete(trace))
    for warning in trace.manifest.warnings:
        yield Finding(Severity.WARNING, "manifest", warning)
    if trace.manifest.origin != "imported":
        try:
            _ = trace.placement
        except (TraceError, PlacementError) as error:
            yield Finding(Severity.ERROR, "manifest", str(error))


def _incomplete(trace: Trace) -> str:
    if not any(table_files(trace.path, name) for name in TABLES):
        return "the writer was stopped before it had written a row; record it again"
    return (
        "the writer was stopped before its end; the trace holds all up to its last flush, and of requests still "
        "running then only their rows"
    )


def _unreadable(trace: Trace) -> Iterator[Finding]:
    for name in TABLES:
        try:
            trace.table(name)
        except TraceError as error:
            yield Finding(Severity.ERROR, name, str(error))

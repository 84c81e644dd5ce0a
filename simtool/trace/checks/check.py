"""Does a trace contradict itself? Every invariant of the trace, checked, with counts and a first example."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from simtool.errors import PlacementError, TraceError
from simtool.trace.checks.admissions import check_admissions
from simtool.trace.checks.events import check_events
from simtool.trace.checks.files import check_files
from simtool.trace.checks.finding import Finding, Severity
from simtool.trace.checks.manifest import check_manifest
from simtool.trace.checks.outcomes import check_outcomes
from simtool.trace.checks.requests import check_requests
from simtool.trace.checks.rows import check_rows
from simtool.trace.checks.steps import check_steps
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace

__all__ = ["Finding", "Severity", "check_stored", "check_trace"]

#: The rules, in the order of the tables in the registry.
_CHECKS: tuple[Callable[[Trace], Iterator[Finding]], ...] = (
    check_requests,
    check_steps,
    check_rows,
    check_admissions,
    check_events,
    check_outcomes,
    check_manifest,
)


def check_trace(trace: Trace) -> list[Finding]:
    """Return what is wrong with a trace or worth knowing of it; errors first, then in the order of the tables.

    A table that cannot be read is an error among the findings, and the checks that need it are left out.
    """
    findings = list(_manifest(trace))
    try:
        for check in _CHECKS:
            findings.extend(check(trace))
    except TraceError as error:
        damaged = list(_unreadable(trace)) or [Finding(Severity.ERROR, "manifest", str(error))]
        return [*damaged, *_manifest(trace)]
    return sorted(findings, key=_gravity)


def check_stored(trace: Trace) -> list[Finding]:
    """Return what `check_trace` does of a trace as it was opened, and whether its files are those that were written."""
    files = list(check_files(trace))
    if any(finding.severity is Severity.ERROR for finding in files):
        return [*files, *_manifest(trace)]  # what such files hold is not looked at
    return sorted([*check_trace(trace), *files], key=_gravity)


def _gravity(finding: Finding) -> int:
    return list(Severity).index(finding.severity)


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
    if not any((trace.path / f"{name}.parquet").exists() for name in TABLES) and not _has_parts(trace):
        return "the writer was stopped before it had written a row; record it again"
    return (
        "the writer was stopped before its end; the trace holds all up to its last flush, and of requests still "
        "running then only their rows"
    )


def _has_parts(trace: Trace) -> bool:
    return any(trace.path.glob("parts/[0-9]*"))


def _unreadable(trace: Trace) -> Iterator[Finding]:
    for name in TABLES:
        try:
            for _ in trace.stretches(name):
                pass
        except TraceError as error:
            yield Finding(Severity.ERROR, name, str(error))

"""`simtool compare`: which arm is faster, by how much, and whether that can be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from simtool.cli.options import FINDING, JsonFlag, Traces
from simtool.cli.shared import console
from simtool.cli.shared.differences import as_record
from simtool.cli.shared.opening import open_all
from simtool.cli.shared.summary import RunsLine, line_of, print_runs
from simtool.cli.shared.summary import as_record as run_record

if TYPE_CHECKING:
    from simtool.analysis.comparison.traces import ComparedTraces
    from simtool.analysis.comparison.verdict import Verdict
    from simtool.cli.documents.of_replays import GroupRecord
    from simtool.cli.shared.summary import TraceLine
    from simtool.trace.trace import Trace

Baseline = Annotated[
    str | None, typer.Option(help="Placement to judge against; default: static, else this-step, else the first.")
]


def compare(
    traces: Traces,
    baseline: Baseline = None,
    metric: Annotated[
        Literal["tokens_per_s", "whole_run_tokens_per_s", "step_time"],
        typer.Option(
            help="What to compare: tokens_per_s (steady) and step_time are of decode steps at full occupancy, "
            "whole_run_tokens_per_s is of all of them."
        ),
    ] = "tokens_per_s",
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Every figure of every trace, and how each interval was made.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Compare two or more traces with 95 % intervals; runs of one setting are repetitions, paired as they ran.

    Exit 1 when nothing can be told, or the traces are not alike enough: other models or seeds, unequal greedy outputs.
    """
    from simtool.analysis.comparison.traces import compare_traces

    opened = open_all(traces)
    found = compare_traces(opened, baseline=baseline, metric=metric)
    lines = {trace.path: line_of(trace) for trace in opened}
    if json:
        from simtool.cli.documents.of_replays import CompareDocument

        groups = [_as_record(each) for each in found.verdicts]
        runs = [run_record(line) for line in lines.values()]
        console.emit(CompareDocument(groups=groups, findings=list(found.findings), runs=runs))
    else:
        _print(found, opened, [lines[trace.path] for trace in opened], verbose=verbose)
    if found.findings or not all(each.told for each in found.verdicts):
        raise typer.Exit(FINDING)


def _as_record(verdict: Verdict) -> GroupRecord:
    from simtool.cli.documents.of_replays import GroupRecord
    from simtool.cli.documents.record import record

    rows = [as_record(each) for each in verdict.comparisons]
    return record(GroupRecord, verdict, verdict.load.to_dict(), baseline=verdict.baseline.label, comparisons=rows)


def _print(found: ComparedTraces, traces: Sequence[Trace], lines: Sequence[TraceLine], *, verbose: bool) -> None:
    for each in found.verdicts:
        console.say(each.headline, style="bold")
        for comparison in each.comparisons:
            if comparison not in each.quoted and (each.quoted or verbose):
                console.say(f"  {comparison.claim}")
            if verbose:
                console.say(f"    {comparison.method}")
        for copy in each.copies:
            console.after(copy)
    if verbose:
        print_runs([RunsLine(line.trace, [line]) for line in lines], "trace", verbose=True)
    else:
        print_runs(_by_arm(found, traces, lines), "placement")
    for finding in found.findings:
        console.after(f"finding: {finding}")


def _by_arm(found: ComparedTraces, traces: Sequence[Trace], lines: Sequence[TraceLine]) -> list[RunsLine]:
    """A line an arm: the mean of its runs, and its change against the baseline of its group."""
    from simtool.analysis.comparison.arms import gather_arms

    of = {id(trace): line for trace, line in zip(traces, lines, strict=True)}
    changes = {(each.group, one.other): one for each in found.verdicts for one in each.comparisons}
    return [
        RunsLine(arm.label, [of[id(trace)] for trace in arm.traces], changes.get((arm.group, arm.name)))
        for arm in gather_arms(traces)
    ]

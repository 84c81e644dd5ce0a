"""`simtool compare`: which arm is faster, by how much, and whether that can be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from simtool.cli.options import FINDING, JsonFlag, Traces
from simtool.cli.shared import console
from simtool.cli.shared.opening import open_all
from simtool.cli.shared.summary import print_summaries

if TYPE_CHECKING:
    from simtool.analysis.comparison.verdict import Verdict

Baseline = Annotated[
    str | None, typer.Option(help="Placement to judge against; default: static, else this-step, else the first.")
]


def compare(
    traces: Traces,
    baseline: Baseline = None,
    metric: Annotated[
        Literal["tokens_per_s", "whole_run_tokens_per_s", "step_time"],
        typer.Option(help="What to compare: the first and the last at full occupancy."),
    ] = "tokens_per_s",
    json: JsonFlag = False,
) -> None:
    """Compare two or more traces with 95 % intervals; runs of one setting are repetitions, paired as they ran.

    Exit 1 when the traces are not alike enough to compare: other models or seeds, unequal greedy outputs.
    """
    from simtool.analysis.comparison.traces import compare_traces

    opened = open_all(traces)
    found = compare_traces(opened, baseline=baseline, metric=metric)
    if json:
        console.emit_json({"groups": [_as_json(each) for each in found.verdicts], "findings": found.findings})
    else:
        _print(found.verdicts)
        print_summaries(opened, json=False)
        for finding in found.findings:
            console.note(f"finding: {finding}")
    if found.findings:
        raise typer.Exit(FINDING)


def _as_json(verdict: Verdict) -> dict[str, object]:
    rows = [each.to_dict() for each in verdict.comparisons]
    told = {"group": verdict.group, "baseline": verdict.baseline.label, "headline": verdict.headline}
    return {**told, **verdict.load.to_dict(), "copies": list(verdict.copies), "comparisons": rows}


def _print(verdicts: Sequence[Verdict]) -> None:
    for each in verdicts:
        console.say(each.headline, style="bold")
        for copy in each.copies:
            console.note(copy)
        for comparison in each.quoted:
            console.say(f"    {comparison.method}")
        for comparison in each.comparisons:
            if comparison not in each.quoted:
                console.say(f"  {comparison.claim}")
                console.say(f"    {comparison.method}")

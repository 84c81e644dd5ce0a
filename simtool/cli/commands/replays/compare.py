"""`simtool compare`: which arm is faster, by how much, and whether that can be told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from simtool.cli.options import FINDING, JsonFlag, Traces, check_distinct
from simtool.cli.shared import console
from simtool.cli.shared.summary import print_summaries
from simtool.errors import UsageError

if TYPE_CHECKING:
    from simtool.analysis.comparison.verdict import Verdict
    from simtool.trace.trace import Trace

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
    """Compare two or more traces with 95 % intervals; runs of one setting are repetitions, paired in the order given.

    Exit 1 when the traces are not alike enough to compare: other models or seeds, unequal greedy outputs.
    """
    from simtool.analysis.comparison.arms import differences, gather_arms
    from simtool.analysis.comparison.headline import Metric
    from simtool.analysis.comparison.verdict import verdicts

    opened = open_all(traces)
    if len(opened) < 2:
        raise UsageError(f"{len(opened)} trace given; give two or more to compare")
    arms = gather_arms(opened)
    for run in (run for arm in arms for run in arm.runs):
        if not len(run.tokens):
            raise UsageError(f"{run.name}: holds no decode step to compare; give a recording or a replay of one")
    answers = verdicts(arms, Metric(metric), baseline)
    findings = differences(opened)
    if json:
        console.emit_json({"groups": [_as_json(each) for each in answers], "findings": findings})
    else:
        print_summaries(opened, json=False)
        _print(answers)
        for finding in findings:
            console.note(f"finding: {finding}")
    if findings:
        raise typer.Exit(FINDING)


def open_all(paths: list[Path]) -> list[Trace]:
    """Open traces; one given twice, which would count as a repetition, or a broken one is refused."""
    check_distinct(paths)
    from simtool.trace.checks.sound import open_sound

    return [open_sound(path) for path in paths]


def _as_json(answer: Verdict) -> dict[str, object]:
    rows = [each.to_dict() for each in answer.comparisons]
    told = {"group": answer.group, "baseline": answer.baseline.label, "headline": answer.headline}
    return {**told, **answer.load.to_dict(), "copies": list(answer.copies), "comparisons": rows}


def _print(answers: list[Verdict]) -> None:
    for each in answers:
        console.say(each.headline, style="bold")
        for copy in each.copies:
            console.note(copy)
        said = [comparison for comparison in each.comparisons if comparison.claim in each.headline]
        for comparison in said:
            console.say(f"    {comparison.method}")
        for comparison in each.comparisons:
            if comparison not in said:
                console.say(f"  {comparison.claim}")
                console.say(f"    {comparison.method}")

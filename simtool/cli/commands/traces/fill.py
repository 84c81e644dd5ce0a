"""`simtool fill`: add the drafter's outcome at every anchor of a recorded trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simtool.cli.options import FINDING, JsonFlag
from simtool.cli.shared import console
from simtool.errors import UsageError


def fill(
    trace: Annotated[Path, typer.Argument(help="A live trace with its prompts, recorded greedily.")],
    target: Annotated[Path | None, typer.Option(help="Target checkpoint folder; default: the shipped one.")] = None,
    draft: Annotated[Path | None, typer.Option(help="Drafter checkpoint folder; default: the shipped one.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or npu (cuda:0 and npu:0 too); auto takes the best there is.")]
    = "cpu",
    json: JsonFlag = False,
) -> None:  # fmt: skip
    """Run a teacher-forced pass so that any placement can be replayed token-exactly. May be stopped and resumed."""
    if (target is None) != (draft is None):
        raise UsageError("a target and a drafter belong together; give both --target and --draft, or neither")
    from simtool.engine.outcomes.complete import complete_outcomes

    report = complete_outcomes(trace, target, draft, device=device, say=console.note, progress=console.progress)
    if json:
        from simtool.cli.documents.of_traces import FillDocument
        from simtool.cli.documents.record import document

        console.emit(document(FillDocument, report.to_dict()))
    console.note(f"next: simtool advise {trace}")
    if report.disagreeing:
        raise typer.Exit(FINDING)

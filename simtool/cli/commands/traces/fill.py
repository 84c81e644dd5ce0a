"""`simtool fill`: add the drafter's outcome at every anchor of a recorded trace."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli.options import FINDING, JsonFlag
from simtool.cli.shared import console, live
from simtool.cli.shared.opening import open_sound
from simtool.errors import UsageError

if TYPE_CHECKING:
    from simtool.engine.outcomes.teacher_forced import TeacherForcedPass
    from simtool.trace.outcome_coverage import OutcomeCoverage
    from simtool.trace.trace import Trace


def fill(
    trace: Annotated[Path, typer.Argument(help="A live trace with its prompts, recorded greedily.")],
    target: Annotated[Path | None, typer.Option(help="Target checkpoint folder; default: the shipped one.")] = None,
    draft: Annotated[Path | None, typer.Option(help="Drafter checkpoint folder; default: the shipped one.")] = None,
    json: JsonFlag = False,
) -> None:
    """Run a teacher-forced pass so that any placement can be replayed token-exactly. May be stopped and resumed."""
    if (target is None) != (draft is None):
        raise UsageError("a target and a drafter belong together; give both --target and --draft, or neither")
    report = complete_outcomes(trace, target, draft, quiet=json)
    if json:
        console.emit_json(report.to_dict())
    if report.disagreeing:
        raise typer.Exit(FINDING)


def complete_outcomes(path: Path, target: Path | None, draft: Path | None, *, quiet: bool = False) -> OutcomeCoverage:
    """Fill what is missing, a few requests at a time, so that an interrupt loses little; return what was found."""
    from simtool.trace.outcome_coverage import OutcomeCoverage, add_outcomes, requests_without_outcomes
    from simtool.trace.rounding_ties import Choice, judge_flip

    opened = open_sound(path)
    todo = requests_without_outcomes(opened)
    started, flips = time.perf_counter(), dict[Choice, float]()
    if todo:
        teacher_forced = _open_pass(opened, target, draft)
        with console.progress("filling outcomes", total=len(todo)) as done:
            for first in range(0, len(todo), 16):
                chunk = todo[first : first + 16]
                filled = {name: teacher_forced.outcomes(prompt, output) for name, prompt, output in chunk}
                flips |= {Choice(name, at): gap for name, each in filled.items() for at, gap in each.flips.items()}
                opened = add_outcomes(opened, filled)
                done(first + len(chunk))
    if flips:
        tokens = sum(len(output) for _, _, output in todo)
        widest = judge_flip(opened, *max(flips.items(), key=lambda flip: flip[1]))
        console.note(f"{len(flips)} of {tokens} output tokens are not what the target chooses here; widest {widest}")
    report = OutcomeCoverage.of(opened)
    if not quiet:
        console.note(f"{report} ({time.perf_counter() - started:.1f} s)")
    return report


def _open_pass(opened: Trace, target: Path | None, draft: Path | None) -> TeacherForcedPass:
    """Load the models that the trace was recorded with; refuse others, whose outcomes would be wrong."""
    import torch

    from simtool.engine.models.checkpoint import load_draft, load_target
    from simtool.engine.outcomes.teacher_forced import TeacherForcedPass
    from simtool.engine.serving.session import identity

    manifest = opened.manifest
    if target is None or draft is None:
        shipped = manifest.models.get("draft", {}).get("id", "")
        target, draft = live.SHIPPED / "target", live.SHIPPED / shipped
    for role, folder in (("target", target), ("draft", draft)):
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such {role} folder; give --target and --draft as when it was recorded")
        if identity(folder) != manifest.models.get(role):
            raise UsageError(f"{folder}: not the {role} that {opened.path} was recorded with; give that one")
    torch.set_num_threads(1)  # two threads meet at a barrier in every small op, and a busy core makes both wait
    dtype = getattr(torch, str(manifest.details.get("dtype", "float32")))
    loaded = load_target(target, dtype)
    return TeacherForcedPass(loaded, load_draft(draft, loaded, dtype), manifest.sl)

"""`simtool export`: a trace as a file for ui.perfetto.dev, or as an engine would have written it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli.options import ForceFlag, JsonFlag, OutPath, check_output
from simtool.cli.shared import console

if TYPE_CHECKING:
    from simtool.trace.trace import Trace


class Format(StrEnum):
    """What to write."""

    PERFETTO = "perfetto"
    TORCH_PROFILER = "torch-profiler"
    STEP_LOG = "step-log"


_SUFFIXES = {
    Format.PERFETTO: "perfetto.json",
    Format.TORCH_PROFILER: "profile.json",
    Format.STEP_LOG: "steps.jsonl",
}


def export(
    trace: Annotated[Path, typer.Argument(help="The trace's folder.")],
    form: Annotated[Format, typer.Option("--format", help="perfetto: for ui.perfetto.dev; torch-profiler and step-log: "
                    "what `import` takes, as an engine under torch.profiler would have written it.")] = Format.PERFETTO,
    out: OutPath = None,
    force: ForceFlag = False,
    json: JsonFlag = False,
) -> None:  # fmt: skip
    """Write a trace as a file: Chrome trace JSON (compressed when --out ends in .gz), or a step log."""
    target = out if out is not None else Path(f"{trace.resolve().name}.{_SUFFIXES[form]}")
    check_output(target, force=force)
    from simtool.trace.checks.sound import open_sound

    count = _write(form, open_sound(trace), target, force=force)
    if json:
        from simtool.cli.documents.of_traces import ExportDocument

        log = form is Format.STEP_LOG
        lines, events = (count, None) if log else (None, count)
        console.emit(ExportDocument(file=str(target), lines=lines, trace_events=events))
    elif form is Format.STEP_LOG:
        console.line(f"wrote {target}: {count:,} lines; `simtool import --step-log {target}` reads them")
    else:
        console.line(f"wrote {target}: {count:,} trace events; open it in https://ui.perfetto.dev")


def _write(form: Format, trace: Trace, target: Path, *, force: bool) -> int:
    from simtool.trace.exporters.perfetto import export_perfetto
    from simtool.trace.exporters.step_log import export_step_log
    from simtool.trace.exporters.torch_profiler import export_torch_profiler

    if form is Format.PERFETTO:
        return export_perfetto(trace, target, force=force)
    return export_step_log(trace, target) if form is Format.STEP_LOG else export_torch_profiler(trace, target)

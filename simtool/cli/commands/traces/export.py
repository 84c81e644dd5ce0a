"""`simtool export`: a trace as a file for another tool's eyes: ui.perfetto.dev."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simtool.cli.options import ForceFlag, JsonFlag, OutPath, check_output
from simtool.cli.shared import console


def export(
    trace: Annotated[Path, typer.Argument(help="The trace's folder.")],
    out: OutPath = None,
    force: ForceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Write Chrome trace JSON (compressed when --out ends in .gz): open it in ui.perfetto.dev."""
    target = out if out is not None else Path(f"{trace.resolve().name}.perfetto.json")
    check_output(target, force=force)
    from simtool.trace.checks.sound import open_sound
    from simtool.trace.exporters.perfetto import export_perfetto

    count = export_perfetto(open_sound(trace), target, force=force)
    if json:
        console.emit_json({"file": str(target), "trace_events": count})
    else:
        console.line(f"wrote {target}: {count:,} trace events; open it in https://ui.perfetto.dev")

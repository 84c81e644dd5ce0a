"""`simtool first-run`: one command on a new host, one file to send back."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from simtool.cli.options import FINDING, ForceFlag, JsonFlag, check_output
from simtool.cli.shared import console
from simtool.errors import DeviceError


def first_run(
    out: Annotated[Path, typer.Option(help="The report, a JSON file to send back.")] = Path("first-run.json"),
    device: Annotated[str, typer.Option(help="cpu, cuda or npu (cuda:0 and npu:0 too).")] = "npu",
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:
    """Try what the engine asks of a device: attention, clocks, waits, a graph, short runs. Exit 1 when one is wrong."""
    check_output(out, force=force)
    from simtool.cli.documents.of_traces import FirstRunDocument
    from simtool.cli.documents.record import document, plain
    from simtool.engine.first_run.report import first_run as run
    from simtool.files.writing import write_text

    try:
        where, checks = run(device, console.note if json else console.line)
    except DeviceError as error:
        raise DeviceError(f"{error}; --device says which to try: cpu, cuda or npu") from error
    report = document(FirstRunDocument, where, checks=[check.to_dict() for check in checks])
    write_text(out, dumps(plain(report), indent=2, allow_nan=False) + "\n")
    bad = [check.name for check in checks if check.bad]
    tried = [check for check in checks if check.verdict != "does not apply"]
    if json:
        console.emit(report)
    else:
        went = (
            f"{len(bad)} of {len(tried)} checks failed: {', '.join(bad)}"
            if bad
            else f"all {len(tried)} checks went well"
        )
        absent = len(checks) - len(tried)
        console.line(f"{device}: {went}" + (f"; {absent} do not apply to it" if absent else ""))
    console.note(f"the report: {out}")
    if bad:
        raise typer.Exit(FINDING)

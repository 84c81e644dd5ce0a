"""`simtool doctor`: what is here, what is missing, and the command that mends it."""

from __future__ import annotations

import os

import typer

from simtool.cli.options import FINDING, JsonFlag
from simtool.cli.shared import console
from simtool.cli.shared.diagnosis import ABSENT, BROKEN, OK, Check, diagnose

_MARKS = {OK: "ok     ", ABSENT: "absent ", BROKEN: "BROKEN "}


def doctor(json: JsonFlag = False) -> None:
    """Look at Python, packages, devices and CANN. Exit 1 when something is broken; absent extras are fine."""
    checks = diagnose(os.environ)
    if json:
        from simtool.cli.documents.of_traces import CheckRecord, DoctorDocument
        from simtool.cli.documents.record import record

        console.emit(DoctorDocument(checks=[record(CheckRecord, check) for check in checks]))
    else:
        console.say(_answer(checks), style="bold")
        width = max(len(check.name) for check in checks)
        for check in checks:
            console.line(f"{check.name:{width}}  {_MARKS[check.status]}{check.found}")
            if check.remedy:
                console.line(f"{'':{width + 9}}mend: {check.remedy}")
    if any(check.status == BROKEN for check in checks):
        raise typer.Exit(FINDING)


def _answer(checks: list[Check]) -> str:
    """What can be done here, in a sentence."""
    broken = [check.name for check in checks if check.status == BROKEN]
    if broken:
        return f"to mend: {', '.join(broken)}"
    status = {check.name: check.status for check in checks}
    devices = [name for name in ("cuda", "npu") if status.get(name) == OK]
    if status.get("torch") != OK:
        return "replays, comparisons and reports work here; record and validate lack torch"
    return f"everything works here; devices to record on: {', '.join(['cpu', *devices])}"

"""`simtool doctor`: what is here, what is missing, and the command that mends it."""

from __future__ import annotations

import os
from dataclasses import asdict

import typer

from simtool.cli.options import FINDING, JsonFlag
from simtool.cli.shared import console
from simtool.cli.shared.diagnosis import ABSENT, BROKEN, OK, diagnose

_MARKS = {OK: "ok     ", ABSENT: "absent ", BROKEN: "BROKEN "}


def doctor(json: JsonFlag = False) -> None:
    """Look at Python, packages, devices and CANN. Exit 1 when something is broken; absent extras are fine."""
    checks = diagnose(os.environ)
    if json:
        console.emit_json([asdict(check) for check in checks])
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            remedy = f"\n{'':{width + 9}}mend: {check.remedy}" if check.remedy else ""
            console.line(f"{check.name:{width}}  {_MARKS[check.status]}{check.found}{remedy}")
    if any(check.status == BROKEN for check in checks):
        raise typer.Exit(FINDING)

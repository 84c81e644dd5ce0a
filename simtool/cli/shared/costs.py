"""Where a replay's costs come from: a profile's file, or the trace itself, with what-if changes on top."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from simtool.cli.options import command_name
from simtool.cli.shared import console

if TYPE_CHECKING:
    from simtool.profile.profile import Profile
    from simtool.trace.trace import Trace


def costs_for(source: Trace, path: Path | None, changes: Sequence[str], refits: int = 0) -> Profile:
    """Load the profile, or calibrate one from the trace and say so; then apply the changes (NAME=VALUE) in order.

    Ops that the recordings never ran borrow the cost of a similar op; whatever replays such an op says so.
    refits: of a calibrated profile.
    """
    from simtool.calibrate.fit import calibrate
    from simtool.profile.proxies import with_proxies
    from simtool.profile.storage import load_profile
    from simtool.profile.whatif import with_changes

    if path is not None:
        profile = load_profile(path)
    else:
        name = source.path.name
        today = date.today().isoformat()
        profile = calibrate([source], name=name, command=command_name(), created=today, refits=refits)
        console.note(f"costs: calibrated from {name} itself; --profile takes others")
        for warning in profile.provenance.warnings:
            console.note(f"warning: {warning}")
    return with_changes(with_proxies(profile), changes)

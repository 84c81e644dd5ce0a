"""`simtool profile from-toml`: figures of a machine that nobody recorded -> a cost profile."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from simtool.cli.options import ForceFlag, JsonFlag, OutPath, check_output
from simtool.cli.shared import console


class Action(StrEnum):
    """What to make a profile from."""

    FROM_TOML = "from-toml"


def profile(
    action: Annotated[Action, typer.Argument(help="from-toml: from a file of figures, each with its source.")],
    figures: Annotated[Path, typer.Argument(help="TOML of figures; see docs/profile-figures.md.")],
    out: OutPath = None,
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:
    """Make a profile of figures that somebody published, derived or assumed, for `replay --profile` and the studies."""
    path = out or figures.with_suffix(".profile.json")
    check_output(path, force=force)
    from simtool.profile.published import constructed_profile
    from simtool.profile.storage import save_profile

    made = constructed_profile(figures, date.today().isoformat())
    save_profile(made, path)
    sources = made.provenance.sources
    kinds = {kind: sum(source["kind"] == kind for source in sources) for kind in ("published", "derived", "assumed")}
    if json:
        from simtool.cli.documents.of_replays import ProfileDocument
        from simtool.cli.documents.record import document

        told = {"profile": str(path), "figures": kinds, "provenance": made.provenance}
        console.emit(document(ProfileDocument, told))
        return
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    console.say(f"{path} prices a machine by {len(sources)} figures, none of them measured here: {counted}")
    console.after(f"{made.name}: {made.device_name}; no noise and no intervals: nothing of it was measured")

"""How commands open the traces that they were given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from simtool.cli.options import check_distinct

if TYPE_CHECKING:
    from simtool.trace.trace import Trace


def open_all(paths: list[Path]) -> list[Trace]:
    """Open traces; one given twice, which would count as a repetition, or a broken one is refused."""
    check_distinct(paths)
    from simtool.trace.checks.sound import open_sound

    return [open_sound(path) for path in paths]

"""Config files of model folders, read without any weights (and without torch)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simtool.errors import CheckpointError
from simtool.files.reading import UnreadableError, read_json_table


def read_json(path: Path) -> dict[str, Any]:
    """One JSON object from a file. Raises CheckpointError when there is none."""
    try:
        return read_json_table(path)
    except UnreadableError as error:
        raise CheckpointError(f"{path}: {error}: give a model folder, or mend or fetch the file again") from error

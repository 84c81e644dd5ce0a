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


def read_size(folder: Path, key: str, default: int | None = None) -> int:
    """Return a size, 1 or more, from a model folder's config.json; raises CheckpointError for anything else."""
    value = read_json(folder / "config.json").get(key, default)
    if type(value) is not int or value < 1:
        raise CheckpointError(f"{folder / 'config.json'}: {key} is {value!r}, expected a whole number: mend the key")
    return value

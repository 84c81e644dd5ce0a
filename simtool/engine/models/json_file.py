"""Config files of model folders, read without any weights (and without torch)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simtool.errors import CheckpointError


def read_json(path: Path) -> dict[str, Any]:
    """One JSON object from a file. Raises CheckpointError when there is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}): give a model folder") from error
    except ValueError as error:
        raise CheckpointError(f"{path}: not JSON ({error}): mend or fetch the file again") from error
    if not isinstance(data, dict):
        raise CheckpointError(f"{path}: holds a {type(data).__name__}, expected a JSON object")
    return data


def read_size(folder: Path, key: str, default: int | None = None) -> int:
    """A size from a model folder's config.json."""
    value = read_json(folder / "config.json").get(key, default)
    if type(value) is not int or value < 1:
        raise CheckpointError(f"{folder / 'config.json'}: {key} is {value!r}, expected a whole number: mend the key")
    return value

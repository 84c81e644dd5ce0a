"""A profile on disk: one JSON file, its long lists of numbers a line each."""

from __future__ import annotations

import json
import re
from pathlib import Path

from simtool.errors import ProfileError
from simtool.files.reading import UnreadableError, read_json_table
from simtool.files.writing import write_text
from simtool.profile.profile import Profile


def save_profile(profile: Profile, path: Path | str) -> None:
    """Write a profile as JSON, one cost's residuals a line."""
    text = json.dumps(profile.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)
    text = re.sub(r"\[[-\d.eE,\s]+\]", lambda numbers: re.sub(r"\s+", "", numbers.group()), text)
    write_text(Path(path), text + "\n")


def load_profile(path: Path | str) -> Profile:
    """Read a profile; raises ProfileError when it is missing, foreign or from a later schema version."""
    path = Path(path)
    if path.is_dir():
        raise ProfileError(f"{path}: is a folder, not a profile{_remedy(path)}")
    try:
        table = read_json_table(path)
    except UnreadableError as error:
        raise ProfileError(f"{path}: {error}; give a file that `simtool calibrate` wrote") from error
    if "origin" in table:
        raise ProfileError(f"{path}: is the manifest of a trace, not a profile{_remedy(path.parent)}")
    return Profile.from_dict(table, str(path))


def _remedy(folder: Path) -> str:
    """What to do with a trace given for a profile; with anything else, what to give instead."""
    if (folder / "manifest.json").is_file():
        return f"; fit one with `simtool calibrate {folder}` and give the file that it writes"
    return "; give a file that `simtool calibrate` wrote"

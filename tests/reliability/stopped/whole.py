"""Which outputs in a folder are whole: traces that say so and are sound, and files that end as their format does."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree

import polars as pl

from simtool.errors import SimtoolError
from simtool.trace.checks.check import Severity, check_stored
from simtool.trace.manifest import MANIFEST_NAME
from simtool.trace.trace import open_trace


def _page(path: Path) -> None:
    if not path.read_text().rstrip().endswith("</html>"):
        raise ValueError("a page that breaks off")


def _lines(path: Path) -> None:
    if not path.read_text().endswith("\n"):
        raise ValueError("a text that breaks off")


#: Suffix -> what raises where a file of it is not whole.
_READERS: Mapping[str, Callable[[Path], object]] = {
    ".json": lambda path: json.loads(path.read_text()),
    ".toml": lambda path: tomllib.loads(path.read_text()),
    ".csv": pl.read_csv,
    ".svg": ElementTree.parse,
    ".html": _page,
    ".md": _lines,
}
_NOT_WHOLE = (ValueError, pl.exceptions.PolarsError, ElementTree.ParseError)


def whole_outputs(folder: Path) -> set[str]:
    """Return the traces and files named out..., or below such a folder, that are whole, and `live`."""
    places = [*folder.glob("out*"), folder / "live"]
    found = [path for place in places for path in (place, *place.rglob("*")) if "simtmp" not in str(path)]
    traces = {path for path in found if (path / MANIFEST_NAME).is_file() and _is_whole(path)}
    files = {path for path in found if path.suffix in _READERS and path.is_file() and _reads(path)}
    inside = {path for path in files if (path.parent / MANIFEST_NAME).is_file()}
    return {str(path.relative_to(folder)) for path in traces | files - inside}


def wrong_traces(folder: Path) -> list[str]:
    """Say what is wrong with traces below: each is whole and sound, or incomplete and so marked."""
    wrong = []
    for manifest in folder.rglob(MANIFEST_NAME):
        if "simtmp" in str(manifest):
            continue  # nobody's yet
        try:
            found = check_stored(open_trace(manifest.parent))
            wrong += [f"{manifest.parent.name}: {each}" for each in found if each.severity is Severity.ERROR]
        except SimtoolError as error:
            wrong.append(f"{manifest.parent.name}: {error}")
    return wrong


def _is_whole(trace: Path) -> bool:
    try:
        opened = open_trace(trace)
        return opened.manifest.complete and not any(each.severity is Severity.ERROR for each in check_stored(opened))
    except SimtoolError:
        return False


def _reads(path: Path) -> bool:
    try:
        _READERS[path.suffix](path)
    except _NOT_WHOLE:
        return False
    return True

"""Values of a profile's JSON that are of the kind they ought to be; TypeError names the one that is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any

from simtool.files.reading import quoted


def listed(values: object, kind: type | UnionType, what: str) -> Sequence[Any]:
    """Return a list whose values are all of a kind; a text in its place is no list of letters."""
    if not isinstance(values, list | tuple) or not all(_is(each, kind) for each in values):
        raise TypeError(f"{what} is {quoted(values)}")
    return values


def texts(table: object, what: str) -> dict[str, str]:
    """Return a table of texts."""
    if not isinstance(table, Mapping):
        raise TypeError(f"{what} is {quoted(table)}")
    return {str(name): str(text) for name, text in zip(table, listed(list(table.values()), str, what), strict=True)}


def _is(value: object, kind: type | UnionType) -> bool:
    """JSON's true is no number."""
    return isinstance(value, kind) and not isinstance(value, bool)

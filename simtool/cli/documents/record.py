"""How a JSON document is made: typed records, checked as they are built, the schema's name first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

Made = TypeVar("Made", bound="Record")
Known = TypeVar("Known", bound="JsonDocument")

#: A table whose keys are another file's business: a manifest, a placement, where costs come from.
Table = dict[str, Any]


class Record(msgspec.Struct, forbid_unknown_fields=True):
    """A part of a document."""


class JsonDocument(msgspec.Struct, forbid_unknown_fields=True, tag_field="schema"):
    """All that a command prints under --json. Its tag, "simtool.COMMAND/VERSION", is its first key: "schema".

    The version grows when a key goes, or means something else; a new key does not change it.
    """


def record(kind: type[Made], *found: object, **more: object) -> Made:
    """Build a record from tables, all of each, and from objects, of whose attributes it takes those it has keys for.

    Later ones win. Raises msgspec.ValidationError, a fault of the command, where a key or a type is not the record's.
    """
    return msgspec.convert(_plain(kind, *found, more), kind)


def document(kind: type[Known], *found: object, **more: object) -> Known:
    """Build a command's document; see `record`."""
    return msgspec.convert({"schema": schema_of(kind), **_plain(kind, *found, more)}, kind)


def plain(found: JsonDocument) -> dict[str, object]:
    """Return a document as plain JSON values, "schema" first."""
    value: dict[str, object] = msgspec.to_builtins(found)
    return value


def schema_of(kind: type[JsonDocument]) -> str:
    """Return the name and version of a document's schema, such as "simtool.replay/1"."""
    return str(kind.__struct_config__.tag)


def _plain(kind: type[msgspec.Struct], *found: object) -> dict[str, object]:
    merged: dict[str, object] = {}
    for each in found:
        if isinstance(each, Mapping):
            merged.update(each)
        else:
            merged.update({name: getattr(each, name) for name in kind.__struct_fields__ if hasattr(each, name)})
    plain: dict[str, object] = msgspec.to_builtins(merged)
    return plain

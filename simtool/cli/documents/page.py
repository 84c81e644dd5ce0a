"""docs/scripting.md, generated: `python -m simtool.cli.documents.page > docs/scripting.md`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from simtool.cli.documents.index import DOCUMENTS
from simtool.cli.documents.record import JsonDocument, schema_of
from simtool.cli.registry import COMMANDS

_INTRODUCTION = """\
# For scripts: exit statuses and JSON

<!-- Generated from simtool/cli by `make docs`. Do not edit. -->

## Exit statuses
One rule for every command: **0**, what was asked is done or answered; **1**, the command ran, and what it found is no
answer to act on: a check failed, something asked for was left out, or the question cannot be told from what was given;
**2**, it was asked wrongly or could not run, and one line says why and the way out. 130, 143 and 141: stopped by
Ctrl-C, by SIGTERM, or because nobody read the output any more.

A command whose answer is a verdict (`advise`, `compare`) exits 1 where it says "cannot tell" or "not trustworthy". One
whose answer is a table (`replay`, `why`, `sweep`, `search`, `tornado`, `break-even`, `lags`, `power`) exits 0 when the
table is whole, whatever its lines say: how sure each is stands in it.

"""

_JSON = """\

## JSON
With `--json` a command prints one document on standard output, and what it notes on standard error. `schema` names the
document and its version. The version grows when a key goes or comes to mean something else; a new key does not change
it, so take no offence at a key that you do not know. Times are in ns where a key ends in `_ns`; shares are shares, not
percent; `null` is "there is none" or "not known". The schemas as JSON Schema (2020-12):
`python -m simtool.cli.documents.page COMMAND`.

"""


def page() -> str:
    """Return the whole page as Markdown."""
    lines = [_INTRODUCTION + _grid(("command", "exits 1 when"), _statuses()), _JSON.rstrip("\n"), ""]
    told: set[str] = set()
    for command, kind in DOCUMENTS.items():
        schema = json_schema(command)
        parts: Mapping[str, Any] = schema["$defs"]
        lines += [f"### {command}", f"`{schema_of(kind)}`: {_text(kind)}", ""]
        lines += [_grid(("key", "type"), _keys(parts[kind.__name__], skip="schema")), ""]
        for name in sorted(set(parts) - {kind.__name__} - told):
            told.add(name)
            lines += [f"**{name}**: {_description(parts[name])}", "", _grid(("key", "type"), _keys(parts[name])), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def json_schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema of one command's document."""
    kind = DOCUMENTS[command]
    (top,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **top, "$defs": parts}


def _statuses() -> Iterator[tuple[str, str]]:
    for name, listed in COMMANDS.items():
        yield f"`{name}`", listed.finding or "never"


def _keys(part: Mapping[str, Any], skip: str = "") -> Iterator[tuple[str, str]]:
    for key, value in part["properties"].items():
        if key != skip:
            yield f"`{key}`", _type(value)


def _type(value: Mapping[str, Any]) -> str:
    """A JSON type in words."""
    if "$ref" in value:
        return f"**{value['$ref'].rpartition('/')[2]}**"
    if "anyOf" in value:
        return " or ".join(_type(each) for each in value["anyOf"])
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in value["enum"])
    inner = {"array": value.get("items"), "object": value.get("additionalProperties")}.get(value.get("type", ""))
    if "prefixItems" in value:
        inner = value["prefixItems"][0]
    name = {"array": "list"}.get(value.get("type", ""), value.get("type", "anything"))
    return f"{name} of {_type(inner)}" if isinstance(inner, dict) and inner else str(name)


def _description(part: Mapping[str, Any]) -> str:
    return " ".join(str(part.get("description", "")).split())


def _text(kind: type[JsonDocument]) -> str:
    return " ".join((inspect.getdoc(kind) or "").split())


def _grid(heads: tuple[str, str], rows: Iterator[tuple[str, str]]) -> str:
    return "\n".join(f"| {first} | {second} |" for first, second in (heads, ("---", "---"), *rows))


if __name__ == "__main__":
    import json
    import sys

    print(json.dumps(json_schema(sys.argv[1]), indent=2) if len(sys.argv) > 1 else page(), end="")

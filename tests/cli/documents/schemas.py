"""A command's JSON, held against the schema that is published for it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from simtool.cli.documents.page import json_schema


def checked(text: str) -> Any:
    """Parse one command's document; raises jsonschema.ValidationError where it is not what its schema says."""
    found = json.loads(text)
    command = found["schema"].removeprefix("simtool.").partition("/")[0]
    jsonschema.validate(found, json_schema(command), cls=jsonschema.Draft202012Validator)
    return found

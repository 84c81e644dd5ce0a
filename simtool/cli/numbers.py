"""Numbers on the command line: how they are written, and how large they may be, for every command in one place.

A number is written in ASCII digits, as people and other programs write it: not 1_0, not \uff11, not " 1", all of which
Python reads. Bounds lie where a run would no longer end the same day, or no longer fit in memory; commands check closer
ones of their own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from typer.core import TyperCommand

from simtool.errors import UsageError
from simtool.files.reading import quoted

_WHOLE = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_INT64 = (1 << 63) - 1
#: Parameter -> its most; any other is bounded by `_MOST_OTHERS`.
_MOST: Mapping[str, float] = {
    "seed": _INT64,
    "concurrency": 4_096,
    "num_prompts": 100_000,
    "num_requests": 10_000_000,
    "max_new_tokens": 1_000_000,
    "seeds": 10_000,
    "waves": 1_000,
    "jobs": 1_024,
    "repeats": 1_000,
    "top": 10_000,
    "sl": 1_024,
    "kv_blocks": 10_000_000,
    "block_size": 65_536,
    "graph_rows": 65_536,
}
_MOST_OTHERS = 1e9
_HELP = frozenset(("-h", "--help"))


@dataclass(frozen=True)
class Mode:
    """What a command is beside one of its flags. help: what it does. parameters: those that have an effect."""

    help: str
    parameters: Collection[str]


class PlainNumbers(TyperCommand):
    """A command whose numbers are written plainly. modes: flag -> what the command then is."""

    modes: Mapping[str, Mode] = MappingProxyType({})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse numbers in other writings before any is read. Raises UsageError.

        Asked for the help of a mode, show what it does and the options that it takes: see `modes`.
        """
        if _HELP.intersection(args):
            for flag, mode in self.modes.items():
                if flag in args:
                    self.help = mode.help
                    self.params = [each for each in self.params if each.name in (*mode.parameters, "help")]
            return super().parse_args(ctx, args)
        values, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        for parameter in self.params:
            kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
            given = values.get(parameter.name or "")
            for text in given if isinstance(given, list | tuple) else [given]:
                if isinstance(text, str) and kind in (int, float):
                    _check_writing(_flag(parameter.name or ""), text, kind)
        return super().parse_args(ctx, args)


def whole_number(text: str, what: str) -> int:
    """Read a whole number as `PlainNumbers` wants it written; raises UsageError."""
    _check_writing(what, text, int)
    return int(text)


def check_bounds(given: Mapping[str, Any]) -> None:
    """Refuse parameters beyond reason, by name -> value. Raises UsageError."""
    for name, value in given.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            most = _MOST.get(name, _MOST_OTHERS)
            if not math.isfinite(value) or abs(value) > most:
                raise UsageError(f"{_flag(name)} is {value:g}; expected at most {most:,.0f}")


def _check_writing(what: str, text: str, kind: type) -> None:
    if len(text) > 40 or not (_WHOLE if kind is int else _REAL).fullmatch(text):
        expected = "a whole number" if kind is int else "a number"
        raise UsageError(f"{what} is {quoted(text)}; expected {expected} in plain digits")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")

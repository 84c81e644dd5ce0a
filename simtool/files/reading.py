"""Reading what somebody else wrote: regular files only, up to a size, JSON and TOML as plain tables."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from pathlib import Path
from typing import Any, NoReturn

#: Most bytes of a text file that is read whole; the largest that simtool writes is far below.
MOST_BYTES = 1 << 30
#: Most characters of what is not understood that a message quotes.
_QUOTED = 80


class UnreadableError(Exception):
    """Why a file cannot be read, as the rest of a sentence; callers put the file's name and the remedy around it."""


def read_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Return a regular file's UTF-8 text, without a byte-order mark; raises UnreadableError."""
    try:
        return read_bytes(path, most_bytes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}") from error


def read_bytes(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """Return a regular file's bytes; a pipe or a device, which may never end, raises UnreadableError like the rest."""
    try:
        # without blocking: opening a pipe would wait for somebody to write into it
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise UnreadableError(f"is {kind_of(found.st_mode)}, not a file")
            if found.st_size > most_bytes:
                raise UnreadableError(f"{found.st_size:,} bytes, and at most {most_bytes:,} are read")
            return file.read(most_bytes + 1)[:most_bytes]
    except (OSError, ValueError) as error:  # ValueError: a path that holds a zero byte
        raise UnreadableError(f"cannot be read ({getattr(error, 'strerror', None) or error})") from error


def read_json_table(path: Path, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Return the one JSON table of a file; raises UnreadableError, also for NaN, Infinity and a key given twice."""
    table = parse_json(read_text(path, most_bytes))
    if not isinstance(table, dict):
        raise UnreadableError(f"holds a {type(table).__name__}, expected a JSON table")
    return table


def parse_json(text: str) -> Any:
    """Parse JSON as its standard has it; raises UnreadableError."""
    try:
        return json.loads(text, parse_constant=_no_number, object_pairs_hook=_once_each)
    except RecursionError as error:
        raise UnreadableError("not JSON that can be read: its brackets nest too deep") from error
    except ValueError as error:
        raise UnreadableError(f"not JSON ({error})") from error


def read_toml_table(path: Path) -> dict[str, Any]:
    """Return the table of a TOML file; raises UnreadableError."""
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise UnreadableError("not TOML that can be read: its brackets nest too deep") from error
    except ValueError as error:
        raise UnreadableError(f"not TOML ({error})") from error


def lines_of(text: str) -> list[str]:
    """Split into lines at line feeds only: U+2028 and the like are part of a JSON line's texts."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def kind_of(mode: int) -> str:
    """Say what a path leads to, with its article."""
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFSOCK: "a socket",
        stat.S_IFLNK: "a link",
    }
    return kinds.get(stat.S_IFMT(mode), "a file")


def quoted(value: object) -> str:
    """Return a value as a message quotes it: one line, and not all of a long one."""
    text = repr(value)
    return text if len(text) <= _QUOTED else text[: _QUOTED - 3] + "..."


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {next(name for name in names if names.count(name) > 1)!r} is given twice")
    return table

"""Names that come from a file and become part of a path, and texts that go to a terminal."""

from __future__ import annotations

import re
import unicodedata

_LONGEST = 120
_SEPARATORS = re.compile(r"[/\\\0]")
#: Characters that a terminal takes for orders, or that change how the line around them reads.
_ORDERS = ("Cc", "Cf", "Cs", "Zl", "Zp")
_PLAIN = "\n\t"


def why_no_name(name: str) -> str | None:
    """Say why a text cannot be a name, for names become files and folders; None when it can."""
    if not name.strip():
        return "is empty"
    if _SEPARATORS.search(name):
        return "holds a path separator"
    if name.startswith((".", "~", "-")):
        return f"starts with {name[0]!r}"
    if len(name.encode(errors="replace")) > _LONGEST:
        return f"is longer than {_LONGEST} bytes"
    if any(unicodedata.category(letter) in _ORDERS for letter in name):
        return "holds a control character"
    return None


def shown(text: str) -> str:
    r"""Return a text as it can be shown: what a terminal would obey, or could not encode, as an escape such as \x1b."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(letter) if _obeyed(letter) else letter for letter in text)


def one_line(text: str) -> str:
    r"""Return a text as `shown` does, and what would end a line as \n: a foreign name says no line of its own."""
    return shown(text).replace("\n", "\\n")


def _obeyed(letter: str) -> bool:
    return letter not in _PLAIN and unicodedata.category(letter) in _ORDERS


def _escape(letter: str) -> str:
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

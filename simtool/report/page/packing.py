"""plotly.js and the figures as one compressed text, so that a page stays small and still asks for nothing.

unpack.js unfolds it in the browser. LZMA makes a quarter less of plotly.js than deflate does. Base 85 with an alphabet
that means nothing in HTML.
"""

from __future__ import annotations

import base64
import hashlib
import lzma
import os
import string
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from plotly.offline import get_plotlyjs

from simtool.errors import OutputError
from simtool.files.writing import write_bytes

#: The letters of `base64.b85encode`, but for those that HTML reads.
ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase + "!#$%,()*+-;.=:?@^_`{|}~"
_THEIRS = string.digits + string.ascii_uppercase + string.ascii_lowercase + "!#$%&()*+-;<=>?@^_`{|}~"
#: How many bits of the byte before tell what comes next, in LZMA's model of a text.
LITERAL_BITS = 3
_FILTER = {"id": lzma.FILTER_LZMA1, "dict_size": 1 << 23, "lc": LITERAL_BITS, "lp": 0, "pb": 0}


@dataclass(frozen=True)
class Packed:
    """Letters of ALPHABET, five for four bytes of an LZMA stream. size: bytes of the text that it unfolds to."""

    letters: str
    size: int


def packed(text: str) -> Packed:
    """Return a text compressed (raw LZMA) and written in letters."""
    plain = text.encode()
    folded = lzma.compress(plain, format=lzma.FORMAT_RAW, filters=[_FILTER])
    letters = base64.b85encode(folded, pad=True).decode()
    return Packed(letters.translate(str.maketrans(_THEIRS, ALPHABET)), len(plain))


@cache
def packed_plotly() -> Packed:
    """Return plotly.js, packed. That takes seconds, so it is kept in the user's cache, under what it was made from."""
    text = get_plotlyjs()
    size = len(text.encode())
    file = _kept(f"{_FILTER}{text}")
    with suppress(OSError, ValueError):
        digest, letters = file.read_text("ascii").split("\n")
        if digest == _digest(letters):
            return Packed(letters, size)
    made = packed(text)
    with suppress(OSError, OutputError):  # nowhere to write: packed anew in each process
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(file, f"{_digest(made.letters)}\n{made.letters}".encode("ascii"))
    return made


def _kept(made_from: str) -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "simtool" / f"plotly-{_digest(made_from)[:16]}.txt"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def figures_json(figures: Mapping[str, str]) -> str:
    """Return one JSON object of figures that are JSON already."""
    return "{" + ",".join(f'"{name}":{figure}' for name, figure in figures.items()) + "}"

"""plotly.js and the figures as one compressed text, so that a page stays small and still asks for nothing.

unpack.js unfolds it in the browser. Base 85 with an alphabet that means nothing in HTML.
"""

from __future__ import annotations

import base64
import string
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from plotly.offline import get_plotlyjs

#: The letters of `base64.b85encode`, but for those that HTML reads.
ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase + "!#$%,()*+-;.=:?@^_`{|}~"
_THEIRS = string.digits + string.ascii_uppercase + string.ascii_lowercase + "!#$%&()*+-;<=>?@^_`{|}~"
_LEVEL = 9


@dataclass(frozen=True)
class Packed:
    """Letters of ALPHABET, five for four bytes of a zlib stream. size: bytes of the text that it unfolds to."""

    letters: str
    size: int


def packed(text: str) -> Packed:
    """Return a text compressed (zlib) and written in letters."""
    plain = text.encode()
    letters = base64.b85encode(zlib.compress(plain, _LEVEL), pad=True).decode()
    return Packed(letters.translate(str.maketrans(_THEIRS, ALPHABET)), len(plain))


@cache
def packed_plotly() -> Packed:
    """Return plotly.js, packed."""
    return packed(get_plotlyjs())


def figures_json(figures: Mapping[str, str]) -> str:
    """Return one JSON object of figures that are JSON already."""
    return "{" + ",".join(f'"{name}":{figure}' for name, figure in figures.items()) + "}"

"""Numbers as other programs write them: in JSON or as a text, a whole one also as 7.0 or 2e3."""

from __future__ import annotations

import re
from decimal import Decimal

#: Plain digits, as the command line wants them too: not 1_0, nor digits of other scripts, all of which Python reads.
_PLAIN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_LONGEST = 64
#: Digits before the point: beyond them nothing here is counted.
_MOST_DIGITS = 40


def number(value: object) -> Decimal | None:
    """Return the number exactly, or None when it is none: a truth value, NaN and inf are not."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    if isinstance(value, int) and abs(value) >= 10**_MOST_DIGITS:
        return None
    text = str(value).strip()
    if len(text) > _LONGEST or not _PLAIN.fullmatch(text):
        return None
    found = Decimal(text)
    return found if found.adjusted() < _MOST_DIGITS else None


def whole(value: object) -> int | None:
    """Return a whole number, or None when it is none."""
    found = number(value)
    return None if found is None or found != found.to_integral_value() else int(found)

"""Tables, intervals and commands in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from simtool.analysis.comparison.comparison import Comparison
from simtool.stats.interval import Interval
from simtool.units import NS_PER_US


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the first column is text, the others are right-aligned."""
    lines = [_line(heads), _line(["---", *["---:"] * (len(heads) - 1)]), *map(_line, rows)]
    return "\n".join(lines) + "\n"


def command(*lines: str) -> str:
    """Return command lines as a code block."""
    return "```\n" + "\n".join(lines) + "\n```\n"


def percent(comparison: Comparison) -> str:
    """Return a gain with its interval."""
    ends = comparison.found.text(lambda ratio: f"{(ratio - 1) * 100:+.2f}")
    return f"{(comparison.ratio - 1) * 100:+.2f} % ({ends})"


def microseconds(found: Interval) -> str:
    """Return a time in us with its interval; found: in ns."""
    mean = f"{found.mean / NS_PER_US:+.1f}"
    if found.bounds is None:
        return f"{mean} us"
    low, high = found.bounds
    return f"{mean} us ({low / NS_PER_US:+.1f} to {high / NS_PER_US:+.1f})"


def share(found: Interval) -> str:
    """Return a share in percent with its interval."""
    if found.bounds is None:
        return f"{found.mean:+.2%}"
    low, high = found.bounds
    return f"{found.mean:+.2%} ({low:+.2%} to {high:+.2%})"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"

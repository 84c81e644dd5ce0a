"""Pages that show what commands print, kept true: `python -m simtool.cli.documents.transcripts docs/questions.md`.

A transcript is an indented block that opens with `$ simtool ...`; below it stands what that prints on standard output
in 80 columns. A line `...` in it stands for any number of lines that the page leaves out.
"""

from __future__ import annotations

import os
import shlex
import textwrap
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from simtool.cli.main import run

_INDENT, _PROMPT, _LEFT_OUT = "    ", "$ simtool ", "..."
_COLUMNS = 80


@dataclass(frozen=True)
class Transcript:
    """One command and what the page shows of its output. first, last: the lines of the output in the page."""

    command: str
    shown: tuple[str, ...]
    first: int
    last: int

    def holds(self, printed: Sequence[str]) -> bool:
        """Whether the page shows what was printed, but for what it leaves out."""
        return _matches(list(self.shown), list(printed))


def transcripts(text: str) -> list[Transcript]:
    """Return the transcripts of a page, in its order."""
    lines = text.splitlines()
    found = []
    for i, line in enumerate(lines):
        if not line.startswith(_INDENT + _PROMPT):
            continue
        end = i + 1
        while end < len(lines) and lines[end].startswith(_INDENT) and not lines[end].startswith(_INDENT + _PROMPT):
            end += 1
        shown = tuple(each.removeprefix(_INDENT) for each in lines[i + 1 : end])
        found.append(Transcript(line.removeprefix(_INDENT + _PROMPT), shown, i + 1, end))
    return found


def printed_by(command: str, folder: Path) -> list[str]:
    """Run a command line, without its leading `simtool`, in a folder, and return what it prints, in 80 columns."""
    arguments = [
        name
        for word in shlex.split(command)
        for name in (sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if "*" in word else [word])
    ]
    before, columns = Path.cwd(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(_COLUMNS)
    os.chdir(folder)
    try:
        with redirect_stdout(StringIO()) as printed, redirect_stderr(StringIO()):
            run(arguments)
    finally:
        os.chdir(before)
        if columns is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = columns
    return [part.rstrip() for line in printed.getvalue().splitlines() for part in _wrapped(line) if part.strip()]


def refreshed(text: str, folder: Path) -> str:
    """Return a page whose transcripts were run again, in their order: those that leave out nothing, or only the end."""
    lines = text.splitlines()
    found = [(each, printed_by(each.command, folder)) for each in transcripts(text)]
    for each, printed in reversed(found):
        kept = each.shown[:-1] if each.shown[-1:] == (_LEFT_OUT,) else each.shown
        if _LEFT_OUT not in kept:
            shown = printed if kept == each.shown else [*printed[: len(kept)], _LEFT_OUT]
            lines[each.first : each.last] = [_INDENT + line for line in shown]
    return "\n".join(lines) + "\n"


def _wrapped(line: str) -> list[str]:
    """A line as a terminal of 80 columns shows it; tables fit already."""
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(line, _COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [
        ""
    ]


def _matches(shown: list[str], printed: list[str]) -> bool:
    if not shown:
        return not printed
    if shown[0] == _LEFT_OUT:
        return any(_matches(shown[1:], printed[start:]) for start in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0] and _matches(shown[1:], printed[1:])


if __name__ == "__main__":
    import sys

    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(refreshed(page.read_text(), Path.cwd()))

"""Findings of a campaign, a line of JSON each, kept while it runs: one that was cut off goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Journal:
    """A file of findings; None: they are kept by nobody. Parts of a campaign that run at once have one each."""

    path: Path | None = None

    def add(self, finding: Mapping[str, Any]) -> None:
        """Keep a finding."""
        if self.path is not None:
            with self.path.open("a") as file:
                file.write("\n" + json.dumps(finding) + "\n")  # behind a line that was cut off

    def findings(self) -> list[dict[str, Any]]:
        """Return what was kept; a last line that is cut off is left out."""
        return [] if self.path is None else read_journals([self.path])


def read_journals(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the findings of several journals, those of files that are not there yet left out."""
    lines = [line for path in paths if path.exists() for line in path.read_text().split("\n")]
    found = []
    for line in lines:
        with suppress(ValueError):
            found.append(json.loads(line))
    return found

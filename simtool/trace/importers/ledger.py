"""What an import could not use, by name and number: nothing is left out in silence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


def one_line(value: object, length: int = 120) -> str:
    """Return a foreign value as text for a message: one line, cut, with nothing that a terminal would obey."""
    text = " ".join(str(value)[: 4 * length].split())
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:length]


@dataclass
class Ledger:
    """rejected: broken input, reason -> count, with a first example each. dropped: sound input that has no place."""

    rejected: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def reject(self, reason: str, example: object, count: int = 1) -> None:
        """Count broken pieces of input; the first example of a reason is kept, cut to a readable length."""
        if count:
            self.rejected[reason] += count
            self.first.setdefault(reason, one_line(example))

    def drop(self, what: str, count: int = 1) -> None:
        """Count sound input that the trace has no place for."""
        if count:
            self.dropped[what] += count

    def to_dict(self) -> dict[str, object]:
        """Return the form that a manifest's details keep."""
        rejected = {reason: {"count": n, "first": self.first[reason]} for reason, n in self.rejected.items()}
        return {"rejected": rejected, "dropped": dict(self.dropped)}

    def warnings(self) -> list[str]:
        """Return one line a reason of rejection."""
        return [f"{n} rejected: {reason} (first: {self.first[reason]})" for reason, n in self.rejected.items()]

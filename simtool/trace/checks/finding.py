"""A finding, and how a rule becomes one: filter for the rows that break it, count them, show the first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import polars as pl


class Severity(StrEnum):
    """error: the trace contradicts itself. warning: a figure from it needs care. note: worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """One thing found in a table. count: rows concerned. first: the first of them, as text; empty if none applies."""

    severity: Severity
    table: str
    message: str
    count: int = 1
    first: str = ""

    def __str__(self) -> str:
        example = f" ({self.count}; first: {self.first})" if self.first else ""
        return f"{self.severity}: {self.table}: {self.message}{example}"


@dataclass(frozen=True)
class Rule:
    """A rule of a table. bad: true for rows that break it (null counts as kept). show: columns of the example."""

    message: str
    bad: pl.Expr
    show: tuple[str, ...] = ()
    severity: Severity = Severity.ERROR


def apply(rules: Iterable[Rule], frame: pl.DataFrame, table: str, key: tuple[str, ...]) -> Iterator[Finding]:
    """Yield a finding for each rule that some row of the frame breaks, in the order of the rules."""
    for rule in rules:
        bad = frame.filter(rule.bad)
        if bad.height:
            example = bad.select(list(dict.fromkeys((*key, *rule.show)))).row(0, named=True)
            text = ", ".join(f"{name} {value}" for name, value in example.items())
            yield Finding(severity=rule.severity, table=table, message=rule.message, count=bad.height, first=text)


def duplicates(frame: pl.DataFrame, table: str, key: tuple[str, ...]) -> Iterator[Finding]:
    """Yield a finding when two rows share a key."""
    rule = Rule(f"two rows with the same {', '.join(key)}", pl.struct(key).is_duplicated())
    yield from apply([rule], frame, table, key)


def outside(column: str, allowed: Iterable[str]) -> Rule:
    """Return the rule that a text column holds one of the allowed words."""
    words = list(allowed)
    return Rule(f"{column} is none of {', '.join(words)}", ~pl.col(column).is_in(words), (column,))


def bad_probabilities(column: str, length: int) -> list[Rule]:
    """Return the rules of a list of probabilities, one a draft."""
    values = pl.col(column).list
    broken = values.eval((~pl.element().is_between(0, 1)).fill_null(True)).list.any()
    return [
        Rule(f"{column} does not hold SL values", values.len() != length, (column,)),
        Rule(f"{column} has a value that is no probability", broken, (column,)),
    ]

"""A finding, and how a rule becomes one: filter for the rows that break it, count them, show the first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from simtool.trace.table_file import rises


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


class Tally:
    """Findings of a table's rules, gathered stretch by stretch; in the order in which the rules were first held up.

    key: columns that name a row of the table. order: columns that say which row comes first; None: the key.
    """

    def __init__(self, table: str, key: Sequence[str], order: Sequence[str] | None = None) -> None:
        self._table, self._key, self._order = table, tuple(key), tuple(order or key)
        self._found: dict[tuple[str, Severity], _Bad] = {}

    def add(self, rules: Iterable[Rule], frame: pl.DataFrame, key: Sequence[str] | None = None) -> None:
        """Hold rules up to a frame. key: names rows in another way."""
        held = [(rule, self._found.setdefault((rule.message, rule.severity), _Bad())) for rule in rules]
        if frame.is_empty() or not held:
            return
        broken = frame.select(rule.bad.any().alias(str(place)) for place, (rule, _) in enumerate(held)).row(0)
        for (rule, found), is_broken in zip(held, broken, strict=True):
            if not is_broken:
                continue
            bad = frame.filter(rule.bad)
            first = bad.sort(self._order, maintain_order=True).head(1)
            place = first.select(self._order).row(0)
            found.count += bad.height
            if found.place is None or _sooner(place, found.place):
                found.place, found.first = place, _example(first, (*(key or self._key), *rule.show))

    def probabilities(self, column: str, length: int, frame: pl.DataFrame) -> None:
        """Hold up that a column holds lists of probabilities, one a draft; null: not known."""
        self.add(_bad_probabilities(column, length), frame.clear() if _all_are(frame[column], length) else frame)

    def alike(self, key: tuple[str, ...], frame: pl.DataFrame) -> None:
        """Hold up the rule that no two rows share a key; rows that may do are in one frame."""
        if rises(frame, key):
            frame = frame.clear()
        self.add([Rule(f"two rows with the same {', '.join(key)}", pl.struct(key).is_duplicated())], frame, key)

    def findings(self) -> Iterator[Finding]:
        """Yield what was found."""
        for (message, severity), bad in self._found.items():
            if bad.count:
                yield Finding(severity=severity, table=self._table, message=message, count=bad.count, first=bad.first)


@dataclass
class _Bad:
    """Rows that break a rule. place: of the first of them, in the table's order; first: the same as text."""

    count: int = 0
    place: tuple[object, ...] | None = None
    first: str = ""


def _example(bad: pl.DataFrame, show: Sequence[str]) -> str:
    example = bad.select(list(dict.fromkeys(show))).row(0, named=True)
    return ", ".join(f"{name} {value}" for name, value in example.items())


def _sooner(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Whether a row comes before another; what is not known comes first."""
    return [(each is not None, each) for each in one] < [(each is not None, each) for each in other]


def apply(rules: Iterable[Rule], frame: pl.DataFrame, table: str, key: tuple[str, ...]) -> Iterator[Finding]:
    """Yield a finding for each rule that some row of the frame breaks, in the order of the rules."""
    tally = Tally(table, key)
    tally.add(rules, frame)
    return tally.findings()


def duplicates(frame: pl.DataFrame, table: str, key: tuple[str, ...]) -> Iterator[Finding]:
    """Yield a finding when two rows share a key."""
    tally = Tally(table, key)
    tally.alike(key, frame)
    return tally.findings()


def outside(column: str, allowed: Iterable[str]) -> Rule:
    """Return the rule that a text column holds one of the allowed words."""
    words = list(allowed)
    return Rule(f"{column} is none of {', '.join(words)}", ~pl.col(column).is_in(words), (column,))


def _bad_probabilities(column: str, length: int) -> list[Rule]:
    values = pl.col(column).list
    broken = values.eval((~pl.element().is_between(0, 1)).fill_null(True)).list.any()
    return [
        Rule(f"{column} does not hold SL values", values.len() != length, (column,)),
        Rule(f"{column} has a value that is no probability", broken, (column,)),
    ]


def _all_are(lists: pl.Series, length: int) -> bool:
    """Whether all lists are of that length and hold probabilities: told of them as one column, which takes no time."""
    known = lists.drop_nulls()
    if known.is_empty() or not length or not (known.list.len() == length).all():
        return known.is_empty()
    values = known.explode()
    return not values.null_count() and bool(values.is_between(0, 1).all())

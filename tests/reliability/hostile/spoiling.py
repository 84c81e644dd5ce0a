"""Ways to make a good input wrong in one place, each told in a line."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from simtool.trace.folder import file_hash
from tests.reliability.hostile.forks import in_fork

#: What takes the place of a value in JSON.
VALUES: tuple[Any, ...] = (
    0, -1, 1, 2**31, 2**63, 10**30, 0.5, -0.0, 1e300, float("nan"), float("inf"), True, None, "", "x", "../x",
    "\x1b[2J", "\ud800", "=1+1", [], [1], [[]], {}, {"a": 1},
)  # fmt: skip
_WHOLE_TEXTS = ("[" * 100_000, "", "\x00", "{}", "null", "\ufeff{}")


@dataclass(frozen=True)
class Change:
    """What was done to an input.

    how: replaced, left out, added, rewritten ... before, after: the value at `place`; kinds: theirs; number: the one
    that stands there now. same: whether a reader finds what it found before.
    """

    what: str
    how: str
    place: tuple[str | int, ...] = ()
    before: str = ""
    after: str = ""
    kinds: tuple[str, str] = ("", "")
    same: bool = False
    number: float | None = None

    def __str__(self) -> str:
        return f"{self.what}: {'.'.join(map(str, self.place))} {self.how} ({self.before} -> {self.after})"


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in a JSON value, by the keys that lead to it; of a list the first three."""
    inner = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in places(each, (*path, key)))]


def spoilt(value: Any, dice: random.Random, what: str) -> tuple[Any, Change]:
    """The value with one place replaced, left out, or given another key."""
    made = copy.deepcopy(value)
    found = places(value)[1:]
    if dice.random() < 0.5:  # else the few keys of a whole would hardly ever be drawn beside those of its many parts
        found = [place for place in found if len(place) <= 2]
    place = dice.choice(found)
    holder: Any = made
    for key in place[:-1]:
        holder = holder[key]
    before = holder[place[-1]]
    how = dice.choice(("replaced", "replaced", "replaced", "left out", "added"))
    after = dice.choice(VALUES)
    if how == "left out":
        del holder[place[-1]]
        return made, Change(what, how, place, repr(before)[:40])
    if how == "added" and isinstance(holder, dict):
        holder["no such key"] = after
        return made, Change(what, how, (*place[:-1], "no such key"), "", repr(after)[:40])
    holder[place[-1]] = after
    kinds, same = (_kind(before), _kind(after)), before == after and _kind(before) == _kind(after)
    number = after if _kind(after) in NUMBERS else None
    return made, Change(what, "replaced", place, repr(before)[:40], repr(after)[:40], kinds, same, number)


#: Kinds of numbers: where a number stands a whole one may, and not the other way round.
NUMBERS = ("whole number", "number")


def _kind(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return type(value).__name__
    return NUMBERS[isinstance(value, float)]


def spoil_json(file: Path, dice: random.Random) -> Change:
    """Spoil a JSON file in one place, or as a whole."""
    if dice.random() < 0.06:
        text = file.read_text()
        made = dice.choice((*_WHOLE_TEXTS, text[: len(text) // 2], text + "x", "\ufeff" + text))
        file.write_text(made)
        return Change(file.name, "rewritten", same=made == "\ufeff" + text)
    made, change = spoilt(json.loads(file.read_text()), dice, file.name)
    file.write_text(json.dumps(made), errors="surrogatepass")
    return change


def spoil_line(file: Path, dice: random.Random) -> Change:
    """Spoil one line of a file of JSON lines."""
    lines = [line for line in file.read_text().split("\n") if line]
    at = dice.randrange(len(lines))
    what = f"{file.name} line {at + 1}"
    made, change = spoilt(json.loads(lines[at]), dice, what)
    how = dice.choice(("changed", "changed", "changed", "changed", "cut", "empty"))
    if how != "changed":
        change = Change(what, how, same=how == "empty")  # an empty line is none
    lines[at] = {"changed": json.dumps(made), "cut": lines[at][: len(lines[at]) // 2], "empty": ""}[how]
    ending = dice.choice(("\n", "\n", "\u2028", "\r\n", "\n\n{"))
    if ending.endswith("{"):
        change = Change(file.name, "begun line added")
    file.write_bytes(("\n".join(lines) + ending).encode(errors="surrogatepass"))
    return change


def spoil_cells(file: Path, dice: random.Random) -> Change:
    """Spoil one cell of a CSV file, or its heading."""
    lines = [line.split(",") for line in file.read_text().split("\n")]
    row = dice.randrange(len(lines))
    column = dice.randrange(len(lines[row]))
    before = lines[row][column]
    lines[row][column] = dice.choice(("", "-1", "nan", "1e400", '"', "\x00", "9" * 30, "=1+1", "x", "0", "1,2", "-0"))
    after = lines[row][column]
    file.write_text("\n".join(map(",".join, lines)))
    kinds = tuple("whole number" if each.isdigit() else "str" for each in (before, after))
    number = float(after) if after.isdigit() else None
    return Change(file.name, "replaced", (row, column), before, after, (kinds[0], kinds[1]), before == after, number)


def spoil_bytes(file: Path, dice: random.Random) -> Change:
    """Change a bit, or cut the file."""
    data = bytearray(file.read_bytes())
    at = dice.randrange(len(data))
    data[at] ^= 1 << dice.randrange(8)
    how = dice.choice(("bit changed", "cut"))
    file.write_bytes(data if how == "bit changed" else data[:at])
    return Change(file.name, how, (at,))


def spoil_table(file: Path, dice: random.Random) -> Change:
    """A column of another kind, null, absent, extra or out of order; rows lost, repeated or reversed; other bytes."""
    if dice.random() < 0.15:
        return _spoil_its_bytes(file, dice)
    frame = pl.read_parquet(file)
    name = dice.choice(frame.columns)
    number = dice.choice((0, -1, 2**31 - 1, -(2**31)))
    row = dice.randrange(max(1, frame.height))
    how, act = dice.choice(_of_table(frame, name, number, row))
    try:
        made = act()
    except pl.exceptions.PolarsError:  # a list takes no number
        return Change(file.name, how, (name,), same=True)
    made.write_parquet(file)
    same = made.equals(frame) and made.schema == frame.schema
    return Change(file.name, how, (name,), str(frame.schema[name]), str(number), same=same)


def _spoil_its_bytes(file: Path, dice: random.Random) -> Change:
    """A table of which one value differs then is told as such, and one that reads as before as the same."""
    good = file.read_bytes()
    change = spoil_bytes(file, dice)
    if change.how != "bit changed":
        return change
    try:
        differ = in_fork(lambda: _differing(pl.read_parquet(file), pl.read_parquet(BytesIO(good))))
    except RuntimeError:  # no table at all
        return change
    if not differ:
        return replace(change, same=True)
    if len(differ) == 1:
        return replace(change, how="one number", place=(differ[0],))
    return replace(change, place=tuple(differ))


def _differing(made: pl.DataFrame, frame: pl.DataFrame) -> list[str]:
    """Names of columns that are not as they were; all of them where the table is another."""
    if made.schema != frame.schema or made.height != frame.height:
        return [*frame.columns, "rows"]
    return [name for name in frame.columns if not made[name].equals(frame[name], null_equal=True)]


def _of_table(
    frame: pl.DataFrame, name: str, number: int, row: int
) -> tuple[tuple[str, Callable[[], pl.DataFrame]], ...]:
    dtype = frame.schema[name]
    here = pl.int_range(pl.len()) == row
    value = pl.lit(number).cast(dtype, strict=False)
    return (
        ("column left out", lambda: frame.drop(name)),
        ("column added", lambda: frame.with_columns(pl.lit(1).alias("no_such_column"))),
        ("columns out of order", lambda: frame.select(sorted(frame.columns))),
        ("column of nulls", lambda: frame.with_columns(pl.lit(None, dtype).alias(name))),
        ("column of texts", lambda: frame.with_columns(pl.lit("x").alias(name))),
        ("column of one number", lambda: frame.with_columns(value.alias(name))),
        ("one number", lambda: frame.with_columns(pl.when(here).then(value).otherwise(name).alias(name))),
        ("one null", lambda: frame.with_columns(pl.when(here).then(None).otherwise(name).alias(name))),
        ("rows repeated", lambda: pl.concat([frame, frame])),
        ("one row repeated", lambda: pl.concat([frame, frame.slice(row, 1)])),
        ("one row lost", lambda: frame.filter(~here)),
        ("no rows", lambda: frame.head(0)),
        ("rows reversed", frame.reverse),
        ("column reversed", lambda: frame.with_columns(pl.col(name).reverse())),
    )


def own_hash(trace: Path, table: str) -> None:
    """Let the manifest tell of the spoilt file, as a writer that is wrong itself would."""
    manifest, file = trace / "manifest.json", trace / f"{table}.parquet"
    told = json.loads(manifest.read_text())
    try:
        rows = pl.scan_parquet(file).select(pl.len()).collect().item()
    except pl.exceptions.PolarsError:
        return
    told["tables"][table] = {"rows": rows, "sha256": file_hash(file)}
    manifest.write_text(json.dumps(told))

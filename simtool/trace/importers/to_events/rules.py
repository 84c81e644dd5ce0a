"""Rule files: which annotation, host call or kernel of an engine is which op of the catalogue.

A range that a rule names becomes the host op itself, with all calls inside it. Device work is the work of the op that
launched it, unless a rule names it. What no rule names is OTHER.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from pathlib import Path

import polars as pl

from simtool.errors import TraceError
from simtool.files.reading import UnreadableError, read_toml_table
from simtool.step.ops import CATALOGUE
from simtool.trace.importers import rule_files

OTHER = "other"
_WORKS = frozenset(work.name for op in CATALOGUE.values() for work in op.works)
_SUFFIX = ".toml"


class Named(StrEnum):
    """What a rule names."""

    RANGE = "range"
    CALL = "call"
    WORK = "work"


@dataclass(frozen=True)
class NamingRule:
    """Names that `pattern` is found in are the op (of device work: the work) `op`."""

    on: Named
    pattern: str
    op: str


@dataclass(frozen=True)
class NamingRules:
    """The rules of a file, in its order: the first that matches counts. A range named like an op is that op."""

    source: str
    rules: Sequence[NamingRule]

    def ops(self, on: Named, names: pl.Series) -> pl.Series:
        """Return the op of each name (a categorical), null where no rule names it."""
        known = names.unique().drop_nulls().cast(pl.String).to_list()
        found = {name: self._op(on, name) for name in known}
        named = {name: op for name, op in found.items() if op is not None}
        return names.cast(pl.String).replace_strict(named or {"": ""}, default=None, return_dtype=pl.String)

    def _op(self, on: Named, name: str) -> str | None:
        for rule in self.rules:
            if rule.on is on and re.search(rule.pattern, name):
                return rule.op
        known = _WORKS if on is Named.WORK else CATALOGUE
        return name if on is not Named.CALL and name in known else None


def shipped_rules() -> list[str]:
    """Return the names of the rule files that ship."""
    files = resources.files(rule_files).iterdir()
    return sorted(file.name.removesuffix(_SUFFIX) for file in files if file.name.endswith(_SUFFIX))


def load_rules(name: str) -> NamingRules:
    """Read a rule file: a path, or the name of one that ships. Raises TraceError when it is neither, or not sound."""
    if name in shipped_rules():
        return _parse(tomllib.loads(resources.files(rule_files).joinpath(name + _SUFFIX).read_text("utf-8")), name)
    path = Path(name)
    if not path.is_file():
        raise TraceError(f"--map {name}: no such file, and no rules of that name ship; these do: {_listed()}")
    try:
        return _parse(read_toml_table(path), name)
    except UnreadableError as error:
        raise TraceError(f"--map {name}: {error}; give a TOML file in UTF-8") from error


def _listed() -> str:
    return ", ".join(shipped_rules())


def _parse(table: Mapping[str, object], source: str) -> NamingRules:
    if unknown := sorted(set(table) - {"engine", "rule"}):
        raise TraceError(f"--map {source}: unknown key {unknown[0]!r}; expected engine and [[rule]]")
    rules = table.get("rule")
    if not isinstance(rules, list) or not rules:
        raise TraceError(f"--map {source}: has no [[rule]]; give at least one, with on, match and op")
    return NamingRules(source, [_rule(rule, number, source) for number, rule in enumerate(rules, start=1)])


def _rule(rule: object, number: int, source: str) -> NamingRule:
    where = f"--map {source}: rule {number}"
    if not isinstance(rule, Mapping) or set(rule) != {"on", "match", "op"}:
        raise TraceError(f"{where}: expected exactly the keys on, match and op")
    on, pattern, op = rule["on"], rule["match"], rule["op"]
    if on not in list(Named):
        raise TraceError(f"{where}: on is {on!r}; expected one of {', '.join(Named)}")
    try:
        re.compile(pattern)
    except (re.error, TypeError) as error:
        raise TraceError(f"{where}: match is no regular expression ({error})") from error
    known = sorted(_WORKS) if on == Named.WORK else list(CATALOGUE)
    if op not in known and op != OTHER:
        raise TraceError(f"{where}: op is {op!r}; expected {OTHER} or one of {', '.join(known)}")
    return NamingRule(Named(on), pattern, op)

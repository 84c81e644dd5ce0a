"""The manifest: what a trace is a recording of, in one small JSON file that people read too."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

from simtool.errors import TraceError, UsageError
from simtool.files.reading import UnreadableError, quoted, read_json_table
from simtool.files.writing import write_text
from simtool.step.controller import ControllerSettings
from simtool.trace.run_details import ImportDetails, ReplayDetails, RunDetails
from simtool.trace.schema import SCHEMA_VERSION, TABLES

MANIFEST_NAME = "manifest.json"
_MOST_BYTES = 1 << 26
ORIGINS = ("live", "replayed", "imported", "synthetic")
#: Those whose times are a profile's: a replay's, and of outcomes that were drawn, one that gave them times.
PRICED_ORIGINS = ("replayed", "synthetic")
ALGORITHMS = ("dspark", "dflash", "none")


@dataclass(frozen=True)
class TableFacts:
    """What a manifest keeps of a table's file, so that another one in its place is noticed."""

    rows: int
    sha256: str

    @classmethod
    def from_dict(cls, table: object, source: str) -> TableFacts:
        """Read what `asdict` made; raises TraceError naming the source."""
        rows, digest = (table.get("rows"), table.get("sha256")) if isinstance(table, dict) else (None, None)
        extra = isinstance(table, dict) and len(table) > len(cls.__dataclass_fields__)
        if extra or type(rows) is not int or rows < 0 or not isinstance(digest, str) or not _SHA256.fullmatch(digest):
            raise TraceError(f"{source} is {quoted(table)}; expected rows and sha256")
        return cls(rows, digest)


@dataclass(frozen=True)
class Manifest:
    """What was run, on what, and whether the trace holds all of it."""

    origin: Annotated[str, "live, replayed, imported or synthetic"]
    engine: Annotated[str, "the program that ran the steps (an import: the profiler's format)"]
    engine_version: Annotated[str, "its version"]
    device: Annotated[str, "cpu, cuda or npu; in an import also rocm, xpu, mtia or hpu"]
    device_name: Annotated[str, "the hardware, as it names itself"]
    algorithm: Annotated[str, "the drafter: dspark or dflash; none in an import"]
    sl: Annotated[int, "SL, draft tokens per block; 0 in an import, which tells of no block"]
    block_width: Annotated[int, "draft rows per sequence; 0 in an import"]
    concurrency: Annotated[int, "slots of the batch; 0 in an import"]
    placement: Annotated[dict[str, object] | None, "name, order, lag_steps, and sync where ops do; null in an import"]
    seed: Annotated[int, "seed of the run"]
    clock: Annotated[str, "what the `*_ns` columns count from"]
    models: Annotated[dict[str, dict[str, str]], "role (target, draft) -> id and sha256"] = field(default_factory=dict)
    controller: Annotated[dict[str, object], "predictor (null or its three terms in ms), draft_ms, min_gain"] = field(
        default_factory=dict
    )
    sampling: Annotated[dict[str, object], "temperature, top_k, top_p, seed, accept (reject, match)"] = field(
        default_factory=dict
    )
    warnings: Annotated[list[str], "what a reader of its figures should know"] = field(default_factory=list)
    details: Annotated[dict[str, object], "whatever else is worth keeping, any JSON"] = field(default_factory=dict)
    complete: Annotated[bool, "whether the writer reached its end"] = False
    schema_version: Annotated[int, "version of this format"] = SCHEMA_VERSION
    prompt_seed: Annotated[int | None, "seed that drew the prompts; null: from a file, or not said"] = None
    tables: Annotated[
        dict[str, TableFacts] | None, "table -> rows and sha256 of its file; null: incomplete, or written before this"
    ] = None

    def __post_init__(self) -> None:
        if self.origin not in ORIGINS:
            raise TraceError(f"manifest: origin is {self.origin!r}; expected one of {', '.join(ORIGINS)}")
        if self.algorithm not in ALGORITHMS:
            raise TraceError(f"manifest: algorithm is {self.algorithm!r}; expected one of {', '.join(ALGORITHMS)}")
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise TraceError(f"manifest: {name} is {quoted(value)}; expected {least} to {most}")

    def with_table(self, name: str, facts: TableFacts) -> Manifest:
        """Return the manifest with other facts of one table, where it keeps any."""
        return self if self.tables is None else replace(self, tables={**self.tables, name: facts})

    @property
    def run(self) -> RunDetails:
        """How the run was made, as far as the details tell; raises TraceError where they are of another kind."""
        return RunDetails.read(self.details, "manifest: details")

    @property
    def drawn(self) -> bool:
        """Whether its outcomes are one draw of many: sampled, or drawn from a recording or a stated process."""
        run = self.run
        return run.bootstrap is not None or run.synthetic is not None or not self.settled

    @property
    def settled(self) -> bool:
        """Whether its texts follow from their prompts: greedy, or sampled where drafts only have to match."""
        return not self.sampling.get("temperature") or self.sampling.get("accept") == "match"

    @property
    def replay(self) -> ReplayDetails:
        """What a replay was made from, or what gave a synthetic trace its times; no other trace tells of it."""
        told = self.details if self.origin in PRICED_ORIGINS else {}
        return ReplayDetails.read(told, "manifest: details")

    @property
    def imported(self) -> ImportDetails:
        """What an import could not use; nothing of it is told by another trace."""
        told = self.details if self.origin == "imported" else {}
        return ImportDetails.read(told, "manifest: details")

    def to_dict(self) -> dict[str, object]:
        """Return the form that `from_dict` reads: plain JSON values, schema_version first."""
        table = asdict(self)
        return {"schema_version": table.pop("schema_version"), **table}

    @classmethod
    def from_dict(cls, table: Mapping[str, object], source: str = "manifest") -> Manifest:
        """Build a manifest from parsed JSON; an unknown, absent or mistyped key is a TraceError naming the source."""
        _check_version(table.get("schema_version"), source)
        names = {item.name for item in fields(cls)}
        if unknown := sorted(set(table) - names):
            raise TraceError(f"{source}: unknown key {unknown[0]!r}; expected only {', '.join(sorted(names))}")
        table = {**dict.fromkeys(_LATER), **table}
        if absent := sorted(names - set(table)):
            raise TraceError(f"{source}: no key {absent[0]!r}; a trace's manifest holds every key, so write it anew")
        for name, kind in _KINDS.items():
            _check_kind(table[name], kind, f"{source}: {name}")
        _check_texts(table, source)
        _check_settings(table, source)
        tables = table["tables"]
        if isinstance(tables, dict):
            _check_names(tables, TABLES, f"{source}: tables")
            facts = {name: TableFacts.from_dict(each, f"{source}: tables.{name}") for name, each in tables.items()}
            table = {**table, "tables": facts}
        try:
            return cls(**table)  # type: ignore[arg-type]  # every kind was checked above
        except TraceError as error:
            raise TraceError(str(error).replace("manifest", source, 1)) from error


_TEXTS = ("origin", "engine", "engine_version", "device", "device_name", "algorithm", "clock")
_NUMBERS = ("sl", "block_width", "concurrency", "seed")
_TABLES = ("models", "controller", "sampling", "details")
#: Keys that traces written before them lack; absent is null.
_LATER = ("prompt_seed", "tables")
_KINDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(_TEXTS, (str,)),
    **dict.fromkeys(_NUMBERS, (int,)),
    **dict.fromkeys(_TABLES, (dict,)),
    "placement": (dict, type(None)),
    "prompt_seed": (int, type(None)),
    "tables": (dict, type(None)),
    "warnings": (list,),
    "complete": (bool,),
}
#: Of sampling: the least and the most. Some engines write -1 for no top_k.
_SAMPLING: Mapping[str, tuple[float, float]] = {
    "temperature": (0, 1_000),
    "top_k": (-1, 1 << 31),
    "top_p": (0, 1),
    "seed": (-(1 << 64), 1 << 64),
}
_SHA256 = re.compile("[0-9a-f]{64}")
#: Of the numbers: the least and the most that means anything; a block wider than the columns' type could not be told.
_INT64 = (-(1 << 63), (1 << 63) - 1)
_RANGES: Mapping[str, tuple[int, int]] = {
    "sl": (0, 1024),
    "block_width": (0, 1025),
    "concurrency": (0, 1 << 20),
    "seed": _INT64,
    "prompt_seed": _INT64,
}
_KIND_NAMES = {
    str: "a text",
    int: "a whole number",
    dict: "a table",
    type(None): "null",
    list: "a list",
    bool: "true or false",
}


def read_manifest(folder: Path) -> Manifest:
    """Read a trace's manifest; raises TraceError when there is none or it is not one."""
    path = folder / MANIFEST_NAME
    if not folder.exists():
        raise TraceError(f"{folder}: no such trace; give the folder that `simtool record` or `import` wrote")
    if not folder.is_dir():
        instead = f"give its folder, {folder.parent}" if folder.name == MANIFEST_NAME else "give a trace's folder"
        raise TraceError(f"{folder}: is a file, and a trace is a folder; {instead}")
    if not path.is_file():
        raise TraceError(f"{folder}: not a trace (no {MANIFEST_NAME} in it); give a trace's folder")
    if path.is_symlink():
        raise TraceError(f"{path}: is a link, and a trace holds files of its own; copy what it names")
    try:
        table = read_json_table(path, _MOST_BYTES)
    except UnreadableError as error:
        raise TraceError(f"{path}: {error}; the trace is damaged or foreign") from error
    return Manifest.from_dict(table, source=str(path))


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest so that a reader sees the old one or the new one, never half of either.

    Raises TraceError for details that are not plain JSON.
    """
    try:
        text = json.dumps(manifest.to_dict(), indent=2, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TraceError(f"manifest: not plain JSON ({error}); give texts, finite numbers, lists and tables") from error
    write_text(folder / MANIFEST_NAME, text + "\n")


def _check_texts(table: Mapping[str, object], source: str) -> None:
    """What lies inside lists and tables: warnings are texts, a model is a table of texts."""
    warnings, models = table["warnings"], table["models"]
    assert isinstance(warnings, list)
    assert isinstance(models, dict)
    for warning in warnings:
        _check_kind(warning, (str,), f"{source}: a warning")
    for role, model in models.items():
        _check_kind(model, (dict,), f"{source}: models.{role}")
        for key, text in model.items():
            _check_kind(text, (str,), f"{source}: models.{role}.{key}")


def _check_settings(table: Mapping[str, Any], source: str) -> None:
    """What lies inside controller and sampling: what the controller can be made of, and numbers."""
    try:
        ControllerSettings.from_dict(table["controller"])
    except UsageError as error:
        raise TraceError(f"{source}: controller: {error}") from error
    _check_names(table["sampling"], {**_SAMPLING, "greedy_draft": None, "accept": None}, f"{source}: sampling")
    _check_kind(table["sampling"].get("greedy_draft"), (bool, type(None)), f"{source}: sampling.greedy_draft")
    for name, (least, most) in _SAMPLING.items():
        value = table["sampling"].get(name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
        if not (value is None or is_number):
            raise TraceError(f"{source}: sampling.{name} is {quoted(value)}; expected a number from {least} to {most}")
    accept = table["sampling"].get("accept", "reject")
    if accept not in ("reject", "match"):
        raise TraceError(f"{source}: sampling.accept is {quoted(accept)}; expected reject or match")


def _check_names(given: Mapping[str, object], known: Mapping[str, object], what: str) -> None:
    if unknown := sorted(set(given) - set(known)):
        raise TraceError(f"{what}: unknown {unknown[0]!r}; expected only {', '.join(known)}")


def _check_version(version: object, source: str) -> None:
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise TraceError(f"{source}: schema_version is {version!r}; this is not a trace's manifest")
    if version > SCHEMA_VERSION:
        raise TraceError(
            f"{source}: schema version {version}, and this simtool reads up to {SCHEMA_VERSION}; upgrade simtool"
        )


def _check_kind(value: object, kinds: tuple[type, ...], what: str) -> None:
    is_flag = isinstance(value, bool)
    if not isinstance(value, kinds) or (is_flag and bool not in kinds):
        expected = " or ".join(_KIND_NAMES[kind] for kind in kinds)
        raise TraceError(f"{what} is {quoted(value)}; expected {expected}")

"""What a foreign profile tells of, as tables, before it is mapped to lanes: host calls, device work, ranges, marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

import polars as pl

_WORD = pl.Categorical()
Schema = Mapping[str, pl.DataType]


class WorkKind(StrEnum):
    """What a piece of device work is: only copies to and from the host decide a lane."""

    KERNEL = "kernel"
    UPLOAD = "upload"
    DOWNLOAD = "download"
    OTHER = "other"


#: A call on a host thread. link: what its device work knows it by. waits: the call is a wait for the device, for
#: work on `waits_stream` launched until `waits_until_ns` where these are known.
CALLS: Schema = MappingProxyType(
    {
        "name": _WORD,
        "process": _WORD,
        "thread": _WORD,
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "link": pl.Int64(),
        "waits": pl.Boolean(),
        "waits_stream": _WORD,
        "waits_until_ns": pl.Int64(),
    }
)
#: Work on a stream of a device. kind: a WorkKind. bytes: moved between host and device.
WORKS: Schema = MappingProxyType(
    {
        "name": _WORD,
        "device": _WORD,
        "stream": _WORD,
        "kind": _WORD,
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "link": pl.Int64(),
        "bytes": pl.Int64(),
    }
)
#: A named span of a host thread: an annotation of the engine, an MSTX range.
RANGES: Schema = MappingProxyType(
    {"name": _WORD, "process": _WORD, "thread": _WORD, "start_ns": pl.Int64(), "end_ns": pl.Int64()}
)


@dataclass(frozen=True)
class StepMark:
    """The profiler's own mark of a step, with its own number."""

    step: int
    span_ns: tuple[int, int]


@dataclass
class Timeline:
    """What an importer found, before it is mapped. Tables of the schemas above."""

    calls: pl.DataFrame = field(default_factory=lambda: empty(CALLS))
    works: pl.DataFrame = field(default_factory=lambda: empty(WORKS))
    ranges: pl.DataFrame = field(default_factory=lambda: empty(RANGES))
    marks: list[StepMark] = field(default_factory=list)


def empty(schema: Schema) -> pl.DataFrame:
    """Return the table without rows."""
    return pl.DataFrame(schema=dict(schema))


def make_table(schema: Schema, rows: Iterable[tuple[object, ...]]) -> pl.DataFrame:
    """Return a table of the schema from rows in its order."""
    return pl.DataFrame(list(rows), schema=dict(schema), orient="row")

"""Streams -> lanes. A stream goes to one lane whole, by what it does, unless the caller says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import polars as pl

from simtool.errors import TraceError
from simtool.step.ops import Lane
from simtool.trace.importers.timeline import WorkKind

#: The rule below for every stream.
NO_LANES: Mapping[str, Lane] = MappingProxyType({})


def choose_lanes(works: pl.DataFrame, wanted: Mapping[str, Lane]) -> dict[str, dict[str, object]]:
    """Return stream -> {"lane": its lane, kind: how much of each kind of work}.

    A stream goes to copy or prepare when it only copies (mostly to, or from, the host), else to compute.
    Raises TraceError when `wanted` names a stream that is not there.
    """
    counts = works.select(pl.col("stream", "kind").cast(pl.String)).group_by("stream", "kind").len()
    kinds: dict[str, dict[str, int]] = {}
    for stream, kind, count in counts.sort("stream", "kind").iter_rows():
        kinds.setdefault(stream, {})[kind] = count
    if unknown := sorted(set(wanted) - set(kinds)):
        known = ", ".join(repr(stream) for stream in kinds)
        raise TraceError(f"no stream {unknown[0]!r} in this trace; expected one of {known}")
    return {stream: {"lane": wanted.get(stream, _lane_of(of)).value, **of} for stream, of in kinds.items()}


def _lane_of(kinds: Mapping[str, int]) -> Lane:
    if WorkKind.KERNEL in kinds or WorkKind.OTHER in kinds:
        return Lane.COMPUTE
    return Lane.COPY if kinds.get(WorkKind.DOWNLOAD, 0) >= kinds.get(WorkKind.UPLOAD, 0) else Lane.PREPARE


def executors_of(chosen: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Return lane -> the lane whose stream runs its work in order; empty where that cannot be told.

    Where one stream computes, the work of a lane that has no stream of its own ran on it: a copy there waits for the
    kernels before it. With several computing streams it may have been on any of them.
    """
    lanes = [of["lane"] for of in chosen.values()]
    if lanes.count(Lane.COMPUTE.value) != 1:
        return {}
    compute, others = Lane.COMPUTE.value, (Lane.PREPARE.value, Lane.COPY.value)
    return {compute: compute, **{lane: lane if lane in lanes else compute for lane in others}}


def overlaps(events: pl.DataFrame) -> dict[str, int]:
    """Count by lane the events that begin before an earlier one has ended: of the lane, on the host of the thread.

    events: each lane's in order of time.
    """
    row = pl.when(pl.col("lane") == Lane.HOST.value).then("track").alias("row")
    ordered = events.lazy().select("lane", "start_ns", "end_ns", row)
    latest = pl.col("end_ns").cum_max().shift().over("lane", "row")
    counts = ordered.filter(pl.col("start_ns") < latest).group_by("lane").len().sort("lane").collect()
    return dict(counts.iter_rows())

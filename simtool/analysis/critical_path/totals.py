"""The critical paths of a whole run, summed: what figures and tables of any number of steps are made from.

Events come in stretches, and only sums are kept, so that memory does not grow with the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from simtool.analysis.busy import BusyTime, device_busy_over
from simtool.analysis.critical_path.backtrace import PARTS
from simtool.analysis.critical_path.critical_path import SUMMED, PathBlock, means_of_ops, path_blocks
from simtool.analysis.critical_path.per_op import Columns, sums_by
from simtool.analysis.critical_path.pieces import Flags, Ints
from simtool.analysis.critical_path.spans import typical_steps
from simtool.step.ops import Lane
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace

#: What a critical path reads of an event.
EVENTS = (
    "step", "op", "lane", "start_ns", "end_ns", "wait_start_ns", "wait_end_ns", "flow", "track", "waits_for",
)  # fmt: skip

_PARTS = dict.fromkeys(("part", "op", "lane"), pl.String()) | dict.fromkeys(("ns", "exposed_ns"), pl.Int64())
_OPS = dict.fromkeys(("op", "lane"), pl.String()) | dict.fromkeys((*SUMMED, "slack_ns", "slacks"), pl.Int64())


@dataclass(frozen=True)
class PathTotals:
    """steps: how many paths there are. parts: part, op, lane, ns, exposed_ns of their segments.

    op_sums: what `means_of_ops` takes.
    """

    steps: int
    parts: pl.DataFrame
    op_sums: pl.DataFrame

    @property
    def ops(self) -> pl.DataFrame:
        """Means as of `mean_by_op`."""
        return means_of_ops(self.op_sums, self.steps)


def executors_of(trace: Trace) -> dict[str, str]:
    """Return which executor runs each lane, from the manifest; lanes not named run by themselves."""
    return dict(trace.manifest.run.executors or {})


def busy_of(trace: Trace) -> BusyTime:
    """Return when a trace's device ran."""
    return trace.once("device busy", lambda it: device_busy_over(it.stretches("events", "lane", "start_ns", "end_ns")))


def typical_totals(trace: Trace) -> PathTotals:
    """Return the paths of a trace's typical steps; see `typical_steps`."""
    return trace.once("paths", _totals_of)[1]


def decode_totals(trace: Trace) -> PathTotals:
    """Return the paths of a trace's decode steps."""
    return trace.once("paths", _totals_of)[0]


def _totals_of(trace: Trace) -> tuple[PathTotals, PathTotals]:
    """The paths of decode and of typical steps, walked once; without a steps table there are only typical ones."""
    typical = typical_steps(trace)
    steps = trace.columns("steps", "step", "kind", "start_ns", "end_ns")
    decode = typical if steps.is_empty() else steps.filter(pl.col("kind") == "decode")
    events, executors = partial(trace.stretches, "events", *EVENTS), executors_of(trace)
    return path_totals(decode, events, executors, busy_of(trace), typical["step"])


def path_totals(
    steps: pl.DataFrame,
    events: Callable[[], Iterable[pl.DataFrame]],
    executors: Mapping[str, str],
    busy: BusyTime,
    some: pl.Series | None = None,
) -> tuple[PathTotals, PathTotals]:
    """Sum the paths of steps: of all, and of some by their number (None: all).

    events: gives the table in its order, no step parted. busy: of all of it.
    """
    whole, part = _Sums(), _Sums()
    for block, first in _paths(steps.sort("step"), events(), executors, busy):
        wanted = block.steps.to_numpy() >= first
        whole.add(block, wanted)
        if some is not None:
            part.add(block, wanted & np.isin(block.steps.to_numpy(), some.to_numpy()))
    return whole.totals(), (whole if some is None else part).totals()


class _Sums:
    """Sums of paths, block by block."""

    def __init__(self) -> None:
        self._parts = [pl.DataFrame(schema=_PARTS)]
        self._ops = [pl.DataFrame(schema=_OPS)]
        self._steps = 0

    def add(self, block: PathBlock, wanted: Flags) -> None:
        """Add the paths of the wanted steps of a block, [steps]."""
        segments = _of_steps(block.segments, wanted)
        lengths = {"ns": segments["end_ns"] - segments["start_ns"], "exposed_ns": segments["exposed_ns"]}
        self._parts.append(_summed(block, segments, ("part", "op", "lane"), lengths))
        ops = _of_steps(block.ops, wanted)
        slack = {"slack_ns": ops["slack_ns"] * ops["ran"], "slacks": ops["ran"].astype(np.int64)}
        self._ops.append(_summed(block, ops, ("op", "lane"), {name: ops[name] for name in SUMMED} | slack))
        self._steps += len(np.unique(segments["step"]))

    def totals(self) -> PathTotals:
        place = "part", "op", "lane"
        parts = pl.concat(self._parts).group_by(place).agg(pl.col("ns", "exposed_ns").sum())
        return PathTotals(self._steps, parts.sort(place), pl.concat(self._ops))


def _of_steps(columns: Columns, wanted: Flags) -> Columns:
    """The rows of the wanted steps."""
    mine = wanted[columns["step"]]
    return columns if mine.all() else {name: column[mine] for name, column in columns.items()}


def _summed(block: PathBlock, columns: Columns, keys: Sequence[str], values: Mapping[str, Ints]) -> pl.DataFrame:
    """Sum values, [rows], by keys among the columns, which come back as names."""
    names = {"part": [part.value for part in PARTS], "op": block.names.ops, "lane": block.names.lanes}
    shape = tuple(len(names[key]) for key in keys)
    cell = np.ravel_multi_index(tuple(columns[key] for key in keys), shape)
    there, row = np.unique(cell, return_inverse=True)
    places = zip(keys, np.unravel_index(there, shape), strict=True)
    named = {key: pl.Series(key, names[key], pl.String).gather(place) for key, place in places}
    return pl.DataFrame(named | {name: sums_by(row, each, len(there)) for name, each in values.items()})


def _paths(
    steps: pl.DataFrame, stretches: Iterable[pl.DataFrame], executors: Mapping[str, str], busy: BusyTime
) -> Iterator[tuple[PathBlock, int]]:
    """Yield the paths of the steps of each stretch, and the number of the first step that is not told of before.

    What still runs when a stretch ends is looked at in the next.
    """
    running: pl.DataFrame | None = None
    done = 0  # steps whose paths are told
    for events in stretches:
        here = events if running is None else pl.concat([running, events])
        top = int(steps["step"].search_sorted(events["step"][-1], "right")) if len(events) else done
        yield from _told(steps, here, executors, busy, (running, done, top))
        done = top
        if done < len(steps):
            outlasts = (pl.col("lane") != Lane.HOST.value) & (pl.col("end_ns") > int(steps["start_ns"][done]))
            running = here.filter(outlasts)
    nothing = pl.DataFrame(schema={name: TABLES["events"].polars_schema[name] for name in EVENTS})
    here = nothing if running is None else running
    yield from _told(steps, here, executors, busy, (running, done, len(steps)))


def _told(
    steps: pl.DataFrame,
    events: pl.DataFrame,
    executors: Mapping[str, str],
    busy: BusyTime,
    part: tuple[pl.DataFrame | None, int, int],
) -> Iterator[tuple[PathBlock, int]]:
    """The paths of a part of the steps: what still ran before it, where it begins, and its end."""
    running, low, high = part
    if low == high:
        return
    first = int(steps["step"][low])
    for block in path_blocks(_with(running, steps, low, high), events, executors, busy):
        yield block, first


def _with(running: pl.DataFrame | None, steps: pl.DataFrame, low: int, high: int) -> pl.DataFrame:
    """The steps from low to high, and those that the running work is of."""
    mine = steps.slice(low, high - low)
    if running is None or running.is_empty():
        return mine
    return pl.concat([steps.head(low).filter(pl.col("step").is_in(running["step"].implode())), mine])

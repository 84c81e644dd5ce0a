"""The critical paths of a whole run, summed: what figures and tables of any number of steps are made from.

Events come in stretches, and only sums are kept, so that memory does not grow with the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import polars as pl

from simtool.analysis.busy import BusyTime, device_busy_over
from simtool.analysis.critical_path.critical_path import CriticalPath, critical_path, means_of_ops, sum_by_op
from simtool.analysis.critical_path.spans import typical_steps
from simtool.step.ops import Lane
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace

#: What a critical path reads of an event.
EVENTS = (
    "step", "op", "lane", "start_ns", "end_ns", "wait_start_ns", "wait_end_ns", "flow", "track", "waits_for",
)  # fmt: skip


@dataclass(frozen=True)
class PathTotals:
    """steps: how many paths there are. parts: part, op, ns, exposed_ns of their segments. op_sums: as `sum_by_op`."""

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
    for path in _paths(steps.sort("step"), events(), executors, busy):
        whole.add(path)
        if some is not None:
            of_some = pl.col("step").is_in(some.implode())
            part.add(CriticalPath(path.segments.filter(of_some), path.ops.filter(of_some)))
    return whole.totals(), (whole if some is None else part).totals()


class _Sums:
    """Sums of paths, stretch by stretch."""

    def __init__(self) -> None:
        self._parts: list[pl.DataFrame] = []
        self._ops: list[pl.DataFrame] = []
        self._steps = 0

    def add(self, path: CriticalPath) -> None:
        length = (pl.col("end_ns") - pl.col("start_ns")).alias("ns")
        self._parts.append(path.segments.group_by("part", "op").agg(length.sum(), pl.col("exposed_ns").sum()))
        self._ops.append(sum_by_op(path))
        self._steps += path.segments["step"].n_unique()

    def totals(self) -> PathTotals:
        parts = pl.concat(self._parts).group_by("part", "op").agg(pl.col("ns", "exposed_ns").sum())
        return PathTotals(self._steps, parts.sort("part", "op"), pl.concat(self._ops))


def _paths(
    steps: pl.DataFrame, stretches: Iterable[pl.DataFrame], executors: Mapping[str, str], busy: BusyTime
) -> Iterator[CriticalPath]:
    """Yield the paths of the steps of each stretch. What still runs when a stretch ends is looked at in the next."""
    running: pl.DataFrame | None = None
    done = 0  # steps whose paths are told
    for events in stretches:
        here = events if running is None else pl.concat([running, events])
        top = int(steps["step"].search_sorted(events["step"][-1], "right")) if len(events) else done
        yield _without(critical_path(_with(running, steps, done, top), here, executors, busy), steps["step"], done, top)
        done = top
        if done < len(steps):
            outlasts = (pl.col("lane") != Lane.HOST.value) & (pl.col("end_ns") > int(steps["start_ns"][done]))
            running = here.filter(outlasts)
    nothing = pl.DataFrame(schema={name: TABLES["events"].polars_schema[name] for name in EVENTS})
    here = nothing if running is None else running
    yield _without(
        critical_path(_with(running, steps, done, len(steps)), here, executors, busy), steps["step"], done, len(steps)
    )


def _with(running: pl.DataFrame | None, steps: pl.DataFrame, low: int, high: int) -> pl.DataFrame:
    """The steps from low to high, and those that the running work is of."""
    mine = steps.slice(low, high - low)
    if running is None or running.is_empty():
        return mine
    return pl.concat([steps.head(low).filter(pl.col("step").is_in(running["step"].implode())), mine])


def _without(path: CriticalPath, steps: pl.Series, low: int, high: int) -> CriticalPath:
    """The paths of the steps from low to high only."""
    if low == high:
        return CriticalPath(path.segments.clear(), path.ops.clear())
    mine = pl.col("step") >= int(steps[low])
    return CriticalPath(path.segments.filter(mine), path.ops.filter(mine))

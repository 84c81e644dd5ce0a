"""The critical paths of a whole run, summed: what figures and tables of any number of steps are made from.

Events come in stretches, and only sums are kept, so that memory does not grow with the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

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
    """steps: how many paths there are. parts: part, op, ns, exposed_ns of their segments. ops: as `mean_by_op`."""

    steps: int
    parts: pl.DataFrame
    ops: pl.DataFrame


def executors_of(trace: Trace) -> dict[str, str]:
    """Return which executor runs each lane, from the manifest; lanes not named run by themselves."""
    return dict(trace.manifest.run.executors or {})


def busy_of(trace: Trace) -> BusyTime:
    """Return when a trace's device ran."""
    return trace.once("device busy", lambda it: device_busy_over(it.stretches("events", "lane", "start_ns", "end_ns")))


def typical_totals(trace: Trace) -> PathTotals:
    """Return the paths of a trace's typical steps; see `typical_steps`."""
    return trace.once("paths of typical steps", lambda it: totals_of(it, typical_steps(it)))


def totals_of(trace: Trace, steps: pl.DataFrame) -> PathTotals:
    """Return the paths of some of a trace's steps."""
    return path_totals(steps, lambda: trace.stretches("events", *EVENTS), executors_of(trace), busy_of(trace))


def path_totals(
    steps: pl.DataFrame, events: Callable[[], Iterable[pl.DataFrame]], executors: Mapping[str, str], busy: BusyTime
) -> PathTotals:
    """Sum the paths of steps. events: gives the table in its order, no step parted. busy: of all of it."""
    parts, ops, count = [], [], 0
    for path in _paths(steps.sort("step"), events(), executors, busy):
        length = (pl.col("end_ns") - pl.col("start_ns")).alias("ns")
        parts.append(path.segments.group_by("part", "op").agg(length.sum(), pl.col("exposed_ns").sum()))
        ops.append(sum_by_op(path))
        count += path.segments["step"].n_unique()
    names = pl.concat(parts).group_by("part", "op").agg(pl.col("ns", "exposed_ns").sum()).sort("part", "op")
    return PathTotals(count, names, means_of_ops(pl.concat(ops), count))


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

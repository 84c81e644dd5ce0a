"""A step log and the profile of the same run: whose clock is whose, and which event belongs to which step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from simtool.errors import TraceError
from simtool.step.ops import CATALOGUE, Lane
from simtool.trace.importers.imported import Imported
from simtool.trace.importers.step_log.fold import fold_into_ops, merge_work
from simtool.trace.importers.step_log.join_by import JoinBy
from simtool.trace.importers.step_log.read import StepLog
from simtool.trace.importers.step_log.tables import LogTables
from simtool.trace.importers.step_log.tidy import tidy_ops

_UNIX = ("unix", "unix time")
_HOST = pl.col("lane") == Lane.HOST.value
_TIMES = {
    "requests": ("arrival_ns", "admitted_ns", "first_token_ns", "finished_ns"),
    "steps": ("start_ns", "end_ns"),
    "events": ("start_ns", "end_ns", "wait_start_ns", "wait_end_ns"),
}


@dataclass(frozen=True)
class Joined:
    """The tables of both, on the profile's clock; details and notes: how they were joined."""

    frames: Mapping[str, pl.DataFrame]
    details: dict[str, object]
    notes: list[str]


def join_events(log: StepLog, tables: LogTables, profile: Imported, by: JoinBy | None) -> Joined:
    """Put the profile's events into the log's steps. by: None: the clock where both tell theirs, else the numbers.

    Raises TraceError when neither is possible, or no event falls into a logged step.
    """
    events = profile.frames.get("events")
    if events is None:
        raise TraceError(
            f"{profile.manifest.details['source']}: holds no events, so nothing joins the step log; give a profile"
        )
    offset_ns = _clock_offset(log, profile)
    numbers = _common_numbers(tables, events)
    chosen = by or (JoinBy.TIME if offset_ns is not None and _overlap(tables, events, offset_ns) else JoinBy.STEP)
    if chosen is JoinBy.STEP:
        offset_ns = _offset_of_numbers(log, tables, events, numbers, offset_ns)
    elif offset_ns is None:
        raise TraceError(_no_clock(log, profile))
    assert offset_ns is not None, "both ways found one, or raised"
    shifted = {name: _shift(name, frame, offset_ns) for name, frame in tables.frames.items()}
    placed = _by_time(events, shifted["steps"]) if chosen is JoinBy.TIME else _by_number(events, tables)
    outside = events.height - placed.height
    if placed.is_empty():
        raise TraceError(
            f"{log.path}: no event of the profile falls into a logged step (joined by {chosen.value}); give the "
            "profile and the log of one run" + ("" if by else ", or choose --join time or --join step")
        )
    covered = placed["step"].n_unique()  # before the log's own ops, which every step has, stand among them
    own_ops = not shifted["events"].is_empty() and not _tells_ops(placed)
    if own_ops:
        placed = fold_into_ops(shifted["events"], placed)
    else:
        prefills = shifted["steps"].filter(pl.col("kind") == "prefill")["step"]
        placed = merge_work(tidy_ops(placed, prefills))
    details: dict[str, object] = {
        "by": chosen.value,
        "log_to_profile_ns": offset_ns,
        "steps_with_events": covered,
        "events_outside_the_logged_steps": outside,
        "host_ops_from": "the step log" if own_ops else "the profile",
    }
    notes = []
    if covered < len(tables.numbers):
        notes.append(f"the profile covers {covered} of {len(tables.numbers)} logged steps: the others have rows only")
    others = {name: frame for name, frame in profile.frames.items() if name not in shifted}
    return Joined({**others, **shifted, "events": placed}, details, notes)


def _clock_offset(log: StepLog, profile: Imported) -> int | None:
    """Profile time minus log time in ns, where both clocks are known."""
    clock = profile.manifest.clock
    if clock == log.header.clock or (clock in _UNIX and log.header.clock in _UNIX):
        return 0
    return log.header.unix_offset_ns if clock in _UNIX else None


def _no_clock(log: StepLog, profile: Imported) -> str:
    return (
        f"{log.path}: cannot be joined by time: its clock is {log.header.clock!r} (unix_offset_ns "
        f"{log.header.unix_offset_ns}) and the profile's {profile.manifest.clock!r}; use --join step, or write "
        "unix_offset_ns into the header"
    )


def _overlap(tables: LogTables, events: pl.DataFrame, offset_ns: int) -> bool:
    steps = tables.frames["steps"]
    if events.is_empty():
        return False
    first, last = steps["start_ns"][0] + offset_ns, steps["end_ns"][-1] + offset_ns
    return not events.filter(pl.col("start_ns").is_between(first, last)).is_empty()


def _common_numbers(tables: LogTables, events: pl.DataFrame) -> list[int]:
    """Step numbers that both have; none where the profile tells no steps (all its events are step 0)."""
    of_profile = set(events["step"].unique())
    return [] if of_profile <= {0} else sorted(of_profile & set(tables.numbers))


def _offset_of_numbers(
    log: StepLog, tables: LogTables, events: pl.DataFrame, common: list[int], known_ns: int | None
) -> int:
    if not common:
        raise TraceError(
            f"{log.path}: cannot be joined with the profile: they share no step number, and "
            + ("no clock" if known_ns is None else "their times do not overlap")
            + "; give the profile and the log of one run, or write unix_offset_ns into the log's header"
        )
    if known_ns is not None:
        return known_ns
    starts = dict(events.filter(_HOST).group_by("step").agg(pl.col("start_ns").min()).iter_rows())
    logged = _first_calls(tables)
    return round(float(np.median([starts[step] - logged[step] for step in common if step in starts] or [0])))


def _first_calls(tables: LogTables) -> dict[int, int]:
    """By the log's numbers: when each step's first op that launches work began; its start where no op is logged."""
    launching = [name for name, op in CATALOGUE.items() if op.works]
    ops = tables.frames["events"].filter(pl.col("op").is_in(launching))
    first = dict(ops.group_by("step").agg(pl.col("start_ns").min()).iter_rows())
    steps = tables.frames["steps"].select("step", "start_ns").iter_rows()
    return {tables.numbers[step]: first.get(step, start_ns) for step, start_ns in steps}


def _shift(name: str, frame: pl.DataFrame, offset_ns: int) -> pl.DataFrame:
    return frame.with_columns(pl.col(column) + offset_ns for column in _TIMES.get(name, ()))


def _by_time(events: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """An event belongs to the step that runs when its launch does; between two steps, to the one before."""
    launches = events.filter(_HOST).unique("flow", keep="any").select("flow", launch_ns="start_ns")
    timed = events.join(launches, on="flow", how="left", maintain_order="left")
    timed = timed.with_columns(pl.coalesce("launch_ns", "start_ns").alias("launch_ns"))
    begun = steps.select(launch_ns="start_ns", logged="step").sort("launch_ns", "logged")
    placed = timed.sort("launch_ns").join_asof(begun, on="launch_ns", strategy="backward")
    inside = placed.filter(pl.col("logged").is_not_null() & (pl.col("launch_ns") < steps["end_ns"].max()))
    return inside.with_columns(step=pl.col("logged")).select(events.columns)


def _by_number(events: pl.DataFrame, tables: LogTables) -> pl.DataFrame:
    numbers = pl.DataFrame(
        {"step": tables.numbers, "logged": range(len(tables.numbers))}, schema={"step": pl.Int32, "logged": pl.Int32}
    ).unique("step", keep="first")
    placed = events.join(numbers, on="step", how="inner", maintain_order="left")
    return placed.with_columns(step=pl.col("logged")).select(events.columns)


def _tells_ops(events: pl.DataFrame) -> bool:
    """Whether the profile's host events are ops of the catalogue already."""
    return not events.filter(_HOST & pl.col("op").is_in(list(CATALOGUE))).is_empty()

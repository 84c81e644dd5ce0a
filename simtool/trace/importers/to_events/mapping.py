"""A foreign timeline -> the `events` table (and `steps`), with every choice of the mapping told.

The trace's four lanes are one host thread and three streams. A foreign trace may have more of each, so:
- host holds the outermost calls of every thread of the one process that launched most of the kept device's work;
- a stream goes to one lane whole (lanes.py). `track` keeps the thread or the stream apart from others of its lane;
- flows are numbered anew, host calls first in order of time; device work without a known launch has its own number.
Of several devices the one with most work is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from simtool.errors import TraceError
from simtool.step.ops import Lane
from simtool.trace.frames import make_frame
from simtool.trace.importers.ledger import Ledger
from simtool.trace.importers.timeline import Timeline
from simtool.trace.importers.to_events.clocks import launch_delays
from simtool.trace.importers.to_events.hosts import Hosts, find_hosts
from simtool.trace.importers.to_events.lanes import NO_LANES, choose_lanes, executors_of, overlaps
from simtool.trace.importers.to_events.naming import name_events, tell_naming, with_ranges
from simtool.trace.importers.to_events.rules import NamingRules
from simtool.trace.importers.to_events.steps import ProfiledSteps, find_steps, steps_table
from simtool.trace.schema import TABLES


@dataclass(frozen=True)
class Choices:
    """What the caller says of a profile. lanes: stream -> lane, over the rule. step_marker: what steps
    begin with. rules: what is which op; None: all keep their own names.
    """

    lanes: Mapping[str, Lane] = field(default_factory=lambda: NO_LANES)
    step_marker: str | None = None
    device: str | None = None
    rules: NamingRules | None = None


NO_CHOICES = Choices()


@dataclass(frozen=True)
class Mapped:
    """The tables, and what was decided on the way, for a manifest's details and warnings."""

    frames: dict[str, pl.DataFrame]
    device: str | None
    details: dict[str, object]
    warnings: list[str]


def map_timeline(timeline: Timeline, ledger: Ledger, choices: Choices = NO_CHOICES) -> Mapped:
    """Map a timeline. Raises TraceError when a choice names a stream or device that is not there."""
    device = _choose_device(timeline.works, choices.device)
    works, other_links = _works_of(timeline.works, device, ledger)
    timeline.works = timeline.works.clear()  # a profile is large: nothing is held twice
    hosts = find_hosts(with_ranges(timeline, choices.rules), works, ledger)
    timeline.calls = timeline.calls.clear()
    chosen = choose_lanes(works, choices.lanes)
    works = _with_flows(works, hosts)
    steps = find_steps(timeline, hosts.calls, choices.step_marker)
    events = _events(hosts.calls, works, {stream: str(of["lane"]) for stream, of in chosen.items()}, steps)
    events = name_events(events, works, choices.rules)
    delays = launch_delays(hosts.calls, works)
    overlapping = overlaps(events)
    details: dict[str, object] = {
        "device": device,
        "host_process": hosts.process,
        "host_thread": _busiest_thread(hosts, works),
        "host_threads": _tell_threads(hosts, works),
        "lanes": chosen,
        **({"executors": executors} if (executors := executors_of(chosen)) else {}),
        "overlapping_events": overlapping,
        "device_work_without_launch": int((works["flow"] > hosts.calls.height).sum()),
        "launches_for_other_devices": hosts.flows.join(other_links, on="link", how="semi").height,
        "launch_delay": delays.to_dict() if delays else None,
        "steps": steps.tell(events["start_ns"]),
        "ops": tell_naming(events, choices.rules),
        **ledger.to_dict(),
    }
    warnings = [
        *ledger.warnings(),
        *(f"{n} events on lane {lane} overlap the one before (see details.lanes)" for lane, n in overlapping.items()),
        *(delays.warnings() if delays else []),
    ]
    frames = {"events": events}
    if (table := steps_table(steps, events)) is not None:
        frames["steps"] = make_frame(TABLES["steps"], table)
    return Mapped(frames, device, details, warnings)


def _choose_device(works: pl.DataFrame, wanted: str | None) -> str | None:
    counts = works.select(pl.col("device").cast(pl.String)).group_by("device").len()
    ranked = counts.sort("len", "device", descending=[True, False])["device"].to_list()
    if wanted is None:
        return ranked[0] if ranked else None
    if wanted not in ranked:
        known = ", ".join(repr(device) for device in sorted(ranked)) or "none: the profile has no device work"
        raise TraceError(f"no device {wanted!r} in this trace; expected one of {known}")
    return wanted


def _works_of(works: pl.DataFrame, device: str | None, ledger: Ledger) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The work of the kept device in order of time, and the links of the others'."""
    mine = works.filter(pl.col("device") == device) if device is not None else works.clear()
    others = works.filter(pl.col("device") != device) if device is not None else works.clear()
    for name, count in others["device"].cast(pl.String).value_counts().sort("device").iter_rows():
        ledger.drop(f"work on {name}", count)
    links = others.select("link").drop_nulls().unique().join(mine, on="link", how="anti")
    return mine.sort("start_ns", "end_ns", "stream", maintain_order=True), links


def _with_flows(works: pl.DataFrame, hosts: Hosts) -> pl.DataFrame:
    """Add `flow`: of the launch where it is known, else a number of its own."""
    own = pl.int_range(pl.len()).cast(pl.Int64) + hosts.calls.height + 1
    joined = works.lazy().join(hosts.flows.lazy(), on="link", how="left", maintain_order="left")
    return joined.with_columns(flow=pl.coalesce("flow", own)).collect()


def _busiest_thread(hosts: Hosts, works: pl.DataFrame) -> str | None:
    """The thread that launches most device work; of equals, the one with most calls, then the first by name."""
    threads = _tell_threads(hosts, works)
    return max(sorted(threads), key=lambda name: (threads[name]["launched"], threads[name]["calls"]), default=None)


def _tell_threads(hosts: Hosts, works: pl.DataFrame) -> dict[str, dict[str, int]]:
    launched = works.lazy().group_by("flow").agg(launched=pl.len())
    counts = (
        hosts.calls.lazy()
        .select("flow", pl.col("thread").cast(pl.String), waits=pl.col("wait_end_ns").is_not_null())
        .join(launched, on="flow", how="left")
        .group_by("thread")
        .agg(calls=pl.len(), launched=pl.col("launched").sum(), waits=pl.col("waits").sum())
        .sort("thread")
        .collect()
    )
    return {row.pop("thread"): row for row in counts.iter_rows(named=True)}


def _events(calls: pl.DataFrame, works: pl.DataFrame, lanes: Mapping[str, str], steps: ProfiledSteps) -> pl.DataFrame:
    """The events table. Work is of its launch's step where the launch is known, else of the step of its time."""
    host_step = calls.select("flow", step=steps.numbers(calls["start_ns"]))
    several = calls["thread"].n_unique() > 1
    host = calls.lazy().select(
        step=host_step["step"],
        op=pl.col("name").cast(pl.String),
        lane=pl.lit(Lane.HOST.value),
        start_ns="start_ns",
        end_ns="end_ns",
        wait_start_ns="wait_start_ns",
        wait_end_ns="wait_end_ns",
        flow="flow",
        bytes=pl.lit(0, pl.Int64),
        track=pl.col("thread").cast(pl.String) if several else pl.lit(None, pl.String),
        waits_for=_waited_flow(calls, works)["waits_for"],
        source=pl.lit(None, pl.String),
        named=calls["op"],
    )
    step = steps.numbers(works["start_ns"])
    one_each = len(set(lanes.values())) == len(lanes)
    device = (
        works.lazy()
        .with_columns(by_time=step)
        .join(host_step.lazy(), on="flow", how="left", maintain_order="left")
        .select(
            step=pl.coalesce("step", "by_time"),
            op=pl.col("name").cast(pl.String),
            lane=pl.col("stream").cast(pl.String).replace_strict(dict(lanes) or {"": ""}, return_dtype=pl.String),
            start_ns="start_ns",
            end_ns="end_ns",
            wait_start_ns=pl.lit(None, pl.Int64),
            wait_end_ns=pl.lit(None, pl.Int64),
            flow="flow",
            bytes="bytes",
            track=pl.lit(None, pl.String) if one_each else pl.col("stream").cast(pl.String),
            waits_for=pl.lit(None, pl.Int64),
            source=pl.lit(None, pl.String),
            named=pl.lit(None, pl.String),
        )
    )
    return pl.concat([host, device]).collect()


def _waited_flow(calls: pl.DataFrame, works: pl.DataFrame) -> pl.DataFrame:
    """The flow of the last work that each wait for a stream waited for: launched before it on that stream."""
    launches = calls.lazy().select("flow", launch_ns="start_ns")
    of_stream = (
        works.lazy()
        .select("flow", "end_ns", wait_stream=pl.col("stream").cast(pl.String))
        .join(launches, on="flow", how="left")
        .select("wait_stream", time_ns=pl.coalesce("launch_ns", "end_ns"), waits_for="flow", work_ns="end_ns")
        .sort("time_ns", "work_ns")
    )
    waits = (
        calls.lazy()
        .with_row_index("row")
        .select("row", pl.col("wait_stream").cast(pl.String), time_ns=pl.coalesce("wait_until_ns", "wait_start_ns"))
    )
    known = waits.filter(pl.col("wait_stream").is_not_null() & pl.col("time_ns").is_not_null()).sort("time_ns")
    found = known.join_asof(of_stream, on="time_ns", by="wait_stream", check_sortedness=False).select(
        "row", "waits_for"
    )
    return waits.join(found, on="row", how="left", maintain_order="left").collect()

"""Rules of `events`: lanes run in order, host ops tile their step, device work follows the op that launched it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from simtool.step.ops import CATALOGUE, Lane
from simtool.trace.checks.finding import Finding, Rule, Severity, Tally, apply
from simtool.trace.trace import Trace

_KEY = ("step", "op", "lane", "flow")
_ORDER = ("lane", "start_ns", "end_ns", "flow")
_HOST = pl.col("lane") == Lane.HOST.value
_WAIT_START, _WAIT_END = pl.col("wait_start_ns"), pl.col("wait_end_ns")
_WORKS = sorted({work.name for op in CATALOGUE.values() for work in op.works})

_PLAIN = (
    Rule("lane is none of host, prepare, compute, copy", ~pl.col("lane").is_in([lane.value for lane in Lane])),
    Rule("ends before it starts", pl.col("end_ns") < pl.col("start_ns"), ("start_ns", "end_ns")),
    Rule("moves a negative number of bytes", pl.col("bytes") < 0, ("bytes",)),
    Rule("waits off the host lane", ~_HOST & _WAIT_START.is_not_null()),
    Rule("has one end of a wait only", _WAIT_START.is_null() != _WAIT_END.is_null()),
    Rule(
        "its wait is not inside it",
        (pl.col("start_ns") > _WAIT_START) | (pl.col("end_ns") < _WAIT_END) | (_WAIT_END < _WAIT_START),
        ("start_ns", "wait_start_ns", "wait_end_ns", "end_ns"),
    ),
)

_OVERLAP = Rule(
    "starts before the work before it on its lane ends",
    pl.col("start_ns") < pl.col("lane_free_ns"),
    ("start_ns",),
)

_RUN = (
    Rule("is no op or work of the catalogue", ~pl.col("op").is_in([*CATALOGUE, *_WORKS]), (), Severity.WARNING),
    Rule("belongs to no step", pl.col("step_start_ns").is_null()),
    Rule("ran in another order than it was launched", pl.col("flow") < pl.col("flow_before"), ("flow",)),
)

_SILENT = Rule("has no event, and a step is made of its host ops", pl.lit(True))

_HOST_RULES = (
    Rule("two host ops share a flow", pl.col("flow").is_duplicated()),
    Rule(
        "leaves a gap after the host op before it",
        pl.col("start_ns") > pl.col("end_ns").shift().over("step"),
        ("start_ns",),
        Severity.WARNING,
    ),
    Rule(
        "lies outside its step",
        (pl.col("start_ns") < pl.col("step_start_ns")) | (pl.col("end_ns") > pl.col("step_end_ns")),
        ("start_ns", "end_ns", "step_start_ns", "step_end_ns"),
    ),
)

_DEVICE_RULES = (
    Rule("no host op launched it", pl.col("host_start_ns").is_null()),
    Rule("starts before the op that launched it", pl.col("start_ns") < pl.col("host_start_ns"), ("start_ns",)),
)


def check_events(trace: Trace) -> Iterator[Finding]:
    """Yield what is wrong in `events`; an import has its own op names and no steps, and is held to less."""
    found = _held_up(trace, trace.stretches("events")) or _held_up(trace, [trace.table("events")])
    for tally in found or ():
        yield from tally.findings()
    if trace.manifest.complete and trace.manifest.origin != "imported":
        told = trace.columns("events", "step").unique()
        silent = trace.table("steps").join(told, on="step", how="anti").sort("step")
        yield from apply([_SILENT], silent, "steps", ("step",))


def _held_up(trace: Trace, stretches: Iterable[pl.DataFrame]) -> tuple[Tally, Tally] | None:
    """Hold the rules up to stretches of events; None where one reaches back behind those before it."""
    tally, works = Tally("events", _KEY, _ORDER), Tally("events", _KEY, ("start_ns", "flow"))
    steps = trace.columns("steps", "step", "start_ns", "end_ns")
    steps = steps.rename({"start_ns": "step_start_ns", "end_ns": "step_end_ns"})
    front = _Front()
    for stretch in stretches:
        events = front.behind(stretch.drop("track", "waits_for", "source"))
        if trace.manifest.origin == "imported":
            tally.add(_PLAIN, events)
            continue
        if front.is_before(events):
            return None
        tally.add((*_PLAIN, _OVERLAP), events)
        view = events.join(steps, on="step", how="left", maintain_order="left")
        tally.add(_RUN, view)
        host = view.filter(_HOST)
        tally.add(_HOST_RULES, host)
        launches = host.unique("flow", keep="any").select("flow", host_start_ns="start_ns")
        device = view.filter(~_HOST).join(launches, on="flow", how="left")
        works.add(_DEVICE_RULES, device)
        front.advance(events)
    return tally, works


class _Front:
    """How far events have been looked at: the last of each lane, and the highest flow."""

    def __init__(self) -> None:
        self._last: pl.DataFrame | None = None
        self._flow: int | None = None

    def behind(self, events: pl.DataFrame) -> pl.DataFrame:
        """Return events in the order of their lanes, with the end and the flow of the one before each on its lane."""
        ordered = events.sort(_ORDER)
        if self._last is not None:
            ordered = pl.concat([self._last, ordered], how="diagonal").sort("lane", maintain_order=True)
        same = pl.col("lane") == pl.col("lane").shift()
        before = {"lane_free_ns": "end_ns", "flow_before": "flow"}
        ordered = ordered.with_columns(**{new: pl.when(same).then(pl.col(old).shift()) for new, old in before.items()})
        return ordered.filter(pl.col("step").is_not_null())

    def is_before(self, events: pl.DataFrame) -> bool:
        """Return whether the front is not behind all of these: then they are to be looked at with those before them."""
        if self._last is None or self._flow is None:
            return False
        last = {row[0]: row for row in self._last.iter_rows()}
        first = events.group_by("lane", maintain_order=True).first().select(_ORDER)
        back = any(row < last[row[0]] for row in first.iter_rows() if row[0] in last)
        return back or bool((events["flow"] <= self._flow).any())

    def advance(self, events: pl.DataFrame) -> None:
        """Move on past these."""
        seen = events.select(_ORDER) if self._last is None else pl.concat([self._last, events.select(_ORDER)])
        self._last = seen.group_by("lane", maintain_order=True).last().select(_ORDER)
        self._flow = int(events["flow"].to_numpy().max())  # above those before, or we would not be here

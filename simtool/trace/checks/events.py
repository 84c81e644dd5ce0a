"""Rules of `events`: lanes run in order, host ops tile their step, device work follows the op that launched it."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from simtool.step.ops import CATALOGUE, Lane
from simtool.trace.checks.finding import Finding, Rule, Severity, apply
from simtool.trace.trace import Trace

_KEY = ("step", "op", "lane", "flow")
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
    pl.col("start_ns") < pl.col("end_ns").shift().over("lane"),
    ("start_ns",),
)

_RUN = (
    Rule("is no op or work of the catalogue", ~pl.col("op").is_in([*CATALOGUE, *_WORKS]), (), Severity.WARNING),
    Rule("belongs to no step", pl.col("step_start_ns").is_null()),
    Rule("ran in another order than it was launched", pl.col("flow") < pl.col("flow").shift().over("lane"), ("flow",)),
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
    events = trace.table("events").sort("lane", "start_ns", "end_ns", "flow")
    yield from apply(_PLAIN, events, "events", _KEY)
    if trace.manifest.origin == "imported":
        return
    yield from apply([_OVERLAP], events, "events", _KEY)
    if trace.manifest.complete:
        silent = trace.table("steps").join(events, on="step", how="anti").sort("step")
        yield from apply([_SILENT], silent, "steps", ("step",))
    steps = trace.table("steps").select("step", step_start_ns="start_ns", step_end_ns="end_ns")
    view = events.join(steps, on="step", how="left").sort("lane", "start_ns", "end_ns", "flow")
    yield from apply(_RUN, view, "events", _KEY)
    host = view.filter(_HOST)
    yield from apply(_HOST_RULES, host, "events", _KEY)
    launches = host.unique("flow", keep="any").select("flow", host_start_ns="start_ns")
    device = view.filter(~_HOST).join(launches, on="flow", how="left").sort("start_ns", "flow")
    yield from apply(_DEVICE_RULES, device, "events", _KEY)

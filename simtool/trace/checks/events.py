"""Rules of `events`: lanes run in order, host ops tile their step, device work follows the op that launched it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import polars as pl

from simtool.step.ops import CATALOGUE, Lane
from simtool.trace.checks.finding import Finding, Rule, Severity, Tally, apply
from simtool.trace.checks.numbered import beside, steps_of
from simtool.trace.schema import TABLES
from simtool.trace.table_file import rises
from simtool.trace.trace import Trace

_KEY = ("step", "op", "lane", "flow")
_ORDER = ("lane", "start_ns", "end_ns", "flow")
_HOST = pl.col("lane") == Lane.HOST.value
_WAIT_START, _WAIT_END = pl.col("wait_start_ns"), pl.col("wait_end_ns")
_WORKS = sorted({work.name for op in CATALOGUE.values() for work in op.works})

_KEPT = [name for name in TABLES["events"].polars_schema if name not in ("track", "waits_for", "source")]
_BEHIND = {name: TABLES["events"].polars_schema[name] for name in _KEPT} | {
    "lane_free_ns": pl.Int64,
    "flow_before": pl.Int64,
}

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
    spans = steps.select(step_start_ns="start_ns", step_end_ns="end_ns")
    front = _Front()
    for stretch in stretches:
        lanes = _lanes(stretch.select(_KEPT))
        events = front.behind(lanes)
        if trace.manifest.origin == "imported":
            tally.add(_PLAIN, events)
            continue
        if front.is_before(lanes):
            return None
        tally.add((*_PLAIN, _OVERLAP), events)
        view = beside(events, spans, steps_of(steps, events["step"]))
        tally.add(_RUN, view)
        host = view.filter(_HOST)
        tally.add(_HOST_RULES, host)
        launches = host.unique("flow", keep="any").select("flow", host_start_ns="start_ns")
        device = view.filter(~_HOST).join(launches, on="flow", how="left")
        works.add(_DEVICE_RULES, device)
        front.advance(lanes)
    return tally, works


def _lanes(events: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The events of each lane in their order; most stand in it already."""
    names = events["lane"].unique().sort().to_list()
    parts = {name: events.filter(pl.col("lane") == name) for name in names}
    order = _ORDER[1:]
    return {name: part if rises(part, order) else part.sort(order) for name, part in parts.items()}


class _Front:
    """How far events have been looked at: the last of each lane (start, end, flow), and the highest flow."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int, int]] = {}
        self._flow: int | None = None

    def behind(self, lanes: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
        """Return events lane by lane, with the end and the flow of the one before each on its lane."""
        ordered = [pl.DataFrame(schema=_BEHIND)]
        for name, events in lanes.items():
            _, end_ns, flow = self._last.get(name, (None, None, None))
            ordered.append(
                events.with_columns(
                    lane_free_ns=pl.col("end_ns").shift(fill_value=end_ns),
                    flow_before=pl.col("flow").shift(fill_value=flow),
                )
            )
        return pl.concat(ordered)

    def is_before(self, lanes: Mapping[str, pl.DataFrame]) -> bool:
        """Return whether the front is not behind all of these: then they are to be looked at with those before them."""
        if self._flow is None:
            return False
        seen = self._flow
        return any(
            (name in self._last and events.select(_ORDER[1:]).row(0) < self._last[name])
            or bool((events["flow"] <= seen).any())
            for name, events in lanes.items()
        )

    def advance(self, lanes: Mapping[str, pl.DataFrame]) -> None:
        """Move on past these."""
        for name, events in lanes.items():
            start_ns, end_ns, flow = events.select(_ORDER[1:]).row(-1)
            self._last[name] = (start_ns, end_ns, flow)
        highest = [int(events["flow"].to_numpy().max()) for events in lanes.values()]
        self._flow = max(highest, default=self._flow)  # above those before, or we would not be here

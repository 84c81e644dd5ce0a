"""Workloads: other requests than the recorded ones, with draft outcomes bootstrapped from the recorded ones.

Arrivals and lengths are the requests' own. What the drafter does is bootstrapped by request: a request draws a
recorded one and takes its outcomes in order, from its first anchor on, and draws again when it outlives it. Never
anchor by anchor: whether an old confidence still foretells anything rests on how alike neighbouring anchors are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl

from simtool.errors import TraceError, UsageError
from simtool.replay.admission import admissible
from simtool.replay.keyed_rng import uniform
from simtool.replay.outcomes.drawn import DrawnTrace
from simtool.replay.scenario import Scenario
from simtool.step.scheduler import Request
from simtool.trace.frames import empty_frame, make_frame
from simtool.trace.importers.requests import read_requests
from simtool.trace.run_details import Bootstrap, ServedWorkload
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace, open_trace
from simtool.units import TimeUnit


@dataclass(frozen=True)
class Workload:
    """Requests to serve, in order of arrival; max_new_tokens is what each will emit.

    source: what they come from. warnings: what was left out of it, a sentence each.
    """

    source: str
    requests: tuple[Request, ...]
    warnings: tuple[str, ...] = ()

    def fitted(self, recorded: Trace, scenario: Scenario) -> Workload:
        """Leave out requests that the KV cache could never hold, and say how many; UsageError when it holds none."""
        fitting, refusals = admissible(recorded.manifest, scenario, self.requests)
        if not refusals:
            return self
        if not fitting:
            raise UsageError(f"{self.source}: no request fits the KV cache; the first: {refusals[0]}")
        skipped = f"{len(refusals)} of {len(self.requests)} requests skipped, they never fit; the first: {refusals[0]}"
        return Workload(self.source, tuple(fitting), (*self.warnings, skipped))

    def drawn_from(self, recorded: Trace, seed: int) -> Trace:
        """Return the trace that a replay takes: these requests, with outcomes bootstrapped from the given one.

        The draw is keyed by seed and request id: it is the same under every placement and beside any other requests.
        Times other than arrivals are unknown before the replay and stand at the arrival.
        Raises TraceError when no recorded request is long enough to draw.
        """
        donors = _donors(recorded)
        draws = [draw for request in self.requests for draw in _draws(request, donors, seed)]
        drawn = pl.DataFrame(draws, _DRAW_SCHEMA, orient="row")
        bootstrap = Bootstrap(
            unit="request",
            seed=seed,
            share_of_outcomes=1.0,
            recorded_requests=len(donors),
            draws=len(draws),
            spliced_requests=drawn.filter(pl.col("request_id").is_duplicated())["request_id"].n_unique(),
        )
        served = ServedWorkload(source=self.source, requests=len(self.requests), warnings=self.warnings)
        told = {"workload": served.to_dict(), "bootstrap": dataclasses.asdict(bootstrap)}
        details = {**recorded.manifest.details, **told}
        tables = {name: empty_frame(table) for name, table in TABLES.items() if name != "outcomes"}
        tables["requests"] = _requests(self.requests)
        manifest = dataclasses.replace(recorded.manifest, details=details)
        return DrawnTrace(recorded.path, manifest, tables, recorded=recorded, draws=drawn)


def read_workload(path: Path, limit: int | None = None, unit: TimeUnit | None = None) -> Workload:
    """Read a request trace, or the folder of one that was imported; limit: its first requests only.

    unit: of timestamps whose unit the file does not say. Raises TraceError when it cannot be read, UsageError when it
    has fewer requests than the limit.
    """
    everything = _from_trace(path, unit) if path.is_dir() else _from_file(path, unit)
    requests = everything.requests
    if limit is not None and not 1 <= limit <= len(requests):
        raise UsageError(f"{limit} requests asked for; {path} has {len(requests)}, so give 1 to that many")
    return dataclasses.replace(everything, requests=requests[:limit])


def _from_file(path: Path, unit: TimeUnit | None) -> Workload:
    trace = read_requests(path, unit)
    return Workload(path.name, tuple(trace.requests), tuple(f"{path.name}: {line}" for line in trace.warnings))


def _from_trace(path: Path, unit: TimeUnit | None) -> Workload:
    """The requests of a trace: as long as they were where they are finished, else as long as they asked for."""
    if unit is not None:
        raise UsageError(f"--time-unit has no effect on {path}, a trace, whose times are ns; leave it out")
    trace = open_trace(path)
    length = pl.when(pl.col("finished_ns").is_null()).then("max_new_tokens").otherwise("output_tokens")
    asked = trace.table("requests").sort("arrival_ns", "request_id", maintain_order=True)
    if asked.is_empty():
        raise TraceError(f"{path}: holds no requests; give a request trace, or what `simtool import` made of one")
    first_ns = asked["arrival_ns"][0]
    columns = ("request_id", "prompt_tokens", length.alias("length"), pl.col("arrival_ns") - first_ns)
    requests = tuple(Request(*row) for row in asked.select(*columns).iter_rows())
    return Workload(path.name, requests, tuple(f"{path.name}: {line}" for line in trace.manifest.warnings))


def recorded_workload(recorded: Trace) -> Workload:
    """Return the trace's own finished requests, to draw their outcomes anew: for sampled recordings, over seeds."""
    columns = ("request_id", "prompt_tokens", "output_tokens", "arrival_ns")
    finished = recorded.table("requests").filter(pl.col("finished_ns").is_not_null()).sort("arrival_ns", "request_id")
    return Workload(recorded.path.name, tuple(Request(*row) for row in finished.select(columns).iter_rows()))


@dataclass(frozen=True)
class _Donor:
    """A recorded request. anchors: how many can be taken, counted from its first."""

    request_id: str
    anchors: int


_DRAW_SCHEMA = {"request_id": pl.String, "donor": pl.String, "first_anchor": pl.Int32, "anchors": pl.Int32}


def _donors(recorded: Trace) -> list[_Donor]:
    """Finished requests without their last N anchors, whose match runs the end of the output may have cut."""
    finished = recorded.table("requests").filter(pl.col("finished_ns").is_not_null()).sort("request_id")
    lengths = finished.select("request_id", "output_tokens").iter_rows()
    donors = [_Donor(name, tokens - recorded.manifest.sl) for name, tokens in lengths if tokens > recorded.manifest.sl]
    if not donors:
        raise TraceError(
            f"{recorded.path}: no finished request emits more than a block of {recorded.manifest.sl} tokens, so none "
            "has whole outcomes to draw; record longer outputs"
        )
    return donors


def _draws(request: Request, donors: Sequence[_Donor], seed: int) -> Iterator[tuple[str, str, int, int]]:
    """Yield donors until the request has an outcome at each of its anchors."""
    anchor, end = request.prompt_tokens, request.prompt_tokens + request.max_new_tokens - 1
    for turn in count():
        if anchor >= end:
            return
        donor = donors[int(uniform(seed, "outcomes", request.request_id, turn) * len(donors))]
        taken = min(donor.anchors, end - anchor)
        yield request.request_id, donor.request_id, anchor, taken
        anchor += taken


def _requests(requests: Sequence[Request]) -> pl.DataFrame:
    arrivals = [request.arrival_ns for request in requests]
    lengths = [request.max_new_tokens for request in requests]
    columns: dict[str, list[Any]] = {
        "request_id": [request.request_id for request in requests],
        **dict.fromkeys(("arrival_ns", "admitted_ns", "first_token_ns", "finished_ns"), arrivals),
        "prompt_tokens": [request.prompt_tokens for request in requests],
        **dict.fromkeys(("output_tokens", "max_new_tokens"), lengths),
        "finish_reason": ["length"] * len(requests),
    }
    return make_frame(TABLES["requests"], columns)

"""A request is admitted in the first step in which it can be: an arrival that was moved before it is found."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from simtool.replay.replay import replay
from simtool.replay.scenario import Arrivals, Scenario
from simtool.step.placement import BUILT_IN
from simtool.trace.checks.check import check_trace
from simtool.trace.trace import Trace
from tests.replay.synthetic import constant_costs, profile_of, random_work, source_trace
from tests.trace.test_stamps import moved, said

_EARLIER = "had arrived and fitted into a free slot a step before it was admitted"


def _served(folder: Path, slots: int, rate: float) -> Trace:
    source = source_trace(folder / "source", random_work(3, 4, 12))
    scenario = Scenario(BUILT_IN["lag"], slots, arrivals=Arrivals("poisson", rate), seed=3)
    return replay(source, profile_of(constant_costs(pre=1_000, duration=5_000)), scenario).trace(folder / "run")


def test_with_slots_to_spare_an_arrival_lies_in_the_step_before_its_prefill(tmp_path: Path) -> None:
    trace = _served(tmp_path, 12, 20_000.0)
    requests, steps = trace.table("requests"), trace.table("steps").sort("start_ns")
    looked = 0
    for request in requests.sort("arrival_ns").iter_rows(named=True):
        ends = steps.filter(pl.col("end_ns") <= request["admitted_ns"])["end_ns"].to_list()
        if len(ends) < 2 or ends[-2] >= request["arrival_ns"]:
            continue  # it came while nothing ran, or just now
        name = request["request_id"]
        assert _EARLIER in said(trace, moved(requests, "arrival_ns", name, ends[-2])), name
        assert _EARLIER not in said(trace, moved(requests, "arrival_ns", name, ends[-2] + 1)), name
        looked += 1
    assert looked > 5


def test_whoever_waits_for_a_slot_may_have_come_at_any_time(tmp_path: Path) -> None:
    trace = _served(tmp_path, 2, 500_000.0)
    requests = trace.table("requests")
    assert (requests["admitted_ns"] - requests["arrival_ns"]).max() > 50_000
    later = requests.sort("arrival_ns")[2:]
    for name, arrival_ns in later.select("request_id", "arrival_ns").iter_rows():
        assert _EARLIER not in said(trace, moved(requests, "arrival_ns", name, arrival_ns - 1)), name


def test_a_lost_request_and_lost_events_are_told(tmp_path: Path) -> None:
    trace = _served(tmp_path, 3, 20_000.0)
    tables = {name: trace.table(name) for name in ("requests", "steps", "rows", "events", "outcomes")}
    fewer = Trace(trace.path, trace.manifest, {**tables, "requests": tables["requests"][1:]})
    found = [finding.message for finding in check_trace(fewer)]
    assert "batch is not the number of requests that it began" in found
    assert "its request is not in requests" in found
    silent = Trace(trace.path, trace.manifest, {**tables, "events": tables["events"].filter(pl.col("step") != 3)})
    (message,) = [finding.message for finding in check_trace(silent) if "no event" in finding.message]
    assert message.startswith("has no event")

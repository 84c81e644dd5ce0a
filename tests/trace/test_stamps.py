"""A time of a request that was moved is found, wherever to; no run that the replay can make raises an alarm."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from simtool.replay.replay import replay
from simtool.replay.scenario import Arrivals, Scenario
from simtool.step.placement import BUILT_IN
from simtool.trace.checks.check import Severity, check_trace
from simtool.trace.trace import Trace
from tests.replay.synthetic import Costs, constant_costs, profile_of, random_costs, random_work, source_trace

STEADY = constant_costs(pre=1_000, duration=5_000)
COSTS = {
    "steady": STEADY,
    "free": constant_costs(),
    "only the target": constant_costs(device_target=100),
    **{f"random {seed}": random_costs(seed) for seed in range(4)},
}


def served(folder: Path, costs: Costs, arrivals: Arrivals, *, seed: int = 3, kv_blocks: int = 1000) -> Trace:
    source = source_trace(folder / "source", random_work(seed, 4, 12))
    scenario = Scenario(BUILT_IN["lag"], 3, arrivals=arrivals, seed=seed, kv_blocks=kv_blocks)
    return replay(source, profile_of(costs), scenario).trace(folder / "run")


def said(trace: Trace, requests: pl.DataFrame | None = None) -> list[str]:
    """What is said of the requests, or of other ones in their place, besides notes."""
    tables = {name: trace.table(name) for name in ("requests", "steps", "rows", "events", "outcomes")}
    if requests is not None:
        tables["requests"] = requests
    findings = check_trace(Trace(trace.path, trace.manifest, tables))
    return [finding.message for finding in findings if finding.severity is not Severity.NOTE]


def moved(requests: pl.DataFrame, column: str, request_id: str, time_ns: int) -> pl.DataFrame:
    here = pl.col("request_id") == request_id
    return requests.with_columns(pl.when(here).then(time_ns).otherwise(pl.col(column)).alias(column))


@pytest.mark.parametrize("costs", COSTS.values(), ids=COSTS)
@pytest.mark.parametrize("arrivals", [Arrivals(), Arrivals("poisson", 20_000.0)], ids=["closed", "open"])
@pytest.mark.parametrize("kv_blocks", [2, 1000])
def test_a_run_raises_no_alarm(tmp_path: Path, costs: Costs, arrivals: Arrivals, kv_blocks: int) -> None:
    assert said(served(tmp_path, costs, arrivals, kv_blocks=kv_blocks)) == []


@pytest.mark.parametrize("column", ["admitted_ns", "first_token_ns", "finished_ns"])
def test_a_time_of_another_request_is_found(tmp_path: Path, column: str) -> None:
    trace = served(tmp_path, STEADY, Arrivals())
    requests = trace.table("requests")
    assert requests[column].n_unique() > 3
    for request_id, time_ns in requests.select("request_id", column).iter_rows():
        for other_ns in set(requests[column]) - {time_ns}:
            assert said(trace, moved(requests, column, request_id, other_ns)), (request_id, other_ns)


def test_a_time_within_its_own_step_is_found(tmp_path: Path) -> None:
    trace = served(tmp_path, STEADY, Arrivals())
    requests = trace.table("requests")
    for column, off_ns in (("first_token_ns", -1), ("finished_ns", -1), ("admitted_ns", 1), ("admitted_ns", -1)):
        for request_id, time_ns in requests.select("request_id", column).iter_rows():
            assert said(trace, moved(requests, column, request_id, time_ns + off_ns)), (column, request_id)


def test_a_first_token_of_another_prefill_is_found_by_the_rows(tmp_path: Path) -> None:
    """Admission and first token moved together agree with each other, and with the steps.

    Of prefills without a decode step between them, the rows do not tell which it was.
    """
    trace = served(tmp_path, STEADY, Arrivals())
    times = ["admitted_ns", "first_token_ns"]
    requests = trace.table("requests")
    with_rows = requests.join(trace.table("rows"), on="request_id", how="semi")
    prefills = requests.select(times).unique().rows()
    decodes = trace.table("steps").filter(pl.col("kind") == "decode")["start_ns"]
    for request_id, own_ns in with_rows.select("request_id", "first_token_ns").iter_rows():
        apart = [pair for pair in prefills if decodes.is_between(*sorted((pair[1], own_ns))).any()]
        assert len(apart) > 3
        for admitted_ns, first_ns in apart:
            other = moved(requests, "admitted_ns", request_id, admitted_ns)
            found = said(trace, moved(other, "first_token_ns", request_id, first_ns))
            assert any(message.startswith("first_token_ns is not from a prefill between") for message in found)


def test_arrivals_of_a_closed_loop_lie_before_its_first_step(tmp_path: Path) -> None:
    trace = served(tmp_path, STEADY, Arrivals())
    requests = trace.table("requests")
    longest_ns = trace.table("steps").select((pl.col("end_ns") - pl.col("start_ns")).max()).item()
    late = requests.filter(pl.col("admitted_ns") > 0)["request_id"].to_list()
    assert len(late) > 3
    for request_id in late:
        found = said(trace, moved(requests, "arrival_ns", request_id, 1))
        assert "arrived after the first step began, in a closed loop" in found
    for request_id in requests["request_id"]:
        assert said(trace, moved(requests, "arrival_ns", request_id, -longest_ns - 1)), request_id
    (only,) = said(trace, requests.with_columns(pl.col("arrival_ns") - longest_ns - 1))
    assert only.startswith("waited longer for the next arrival, or the first step, than any step took")


def test_who_arrived_first_is_admitted_first(tmp_path: Path) -> None:
    trace = served(tmp_path, STEADY, Arrivals("poisson", 500_000.0))
    order = trace.table("requests").sort("arrival_ns")
    pairs = list(zip(order.iter_rows(named=True), order[1:].iter_rows(named=True), strict=False))
    overtaking = [(one, two) for one, two in pairs if two["arrival_ns"] < one["admitted_ns"] < two["admitted_ns"]]
    assert overtaking
    for one, two in overtaking:
        found = said(trace, moved(order, "arrival_ns", one["request_id"], two["arrival_ns"] + 1))
        assert "was admitted before a request that had arrived earlier" in found

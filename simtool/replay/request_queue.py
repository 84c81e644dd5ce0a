"""What a replay serves: the source's requests in queue order, when each arrives, and what is drafted for it."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from simtool.replay.outcomes.outcomes import Outcomes, find_outcomes
from simtool.replay.scenario import Scenario
from simtool.step.scheduler import Request
from simtool.trace.queue_order import queue_order
from simtool.trace.trace import Trace


@dataclass(frozen=True)
class RequestQueue:
    """table: the source's requests, as it queued them. requests: the same, by arrival in this replay."""

    table: pl.DataFrame
    requests: list[Request]
    outcomes: Outcomes


def queue_requests(source: Trace, scenario: Scenario) -> RequestQueue:
    """Queue a source's finished requests as a scenario's arrivals say; raises TraceError when there is none."""
    table = queue_order(source)
    arrivals = scenario.arrivals.times_ns(table["arrival_ns"].to_list(), scenario.seed)
    queue = [
        Request(request_id, prompt, limit, arrival)
        for (request_id, prompt, limit), arrival in zip(
            table.select("request_id", "prompt_tokens", "max_new_tokens").iter_rows(), arrivals, strict=True
        )
    ]
    queue.sort(key=lambda request: request.arrival_ns)
    totals = dict(table.select("request_id", "output_tokens").iter_rows())
    outcomes = find_outcomes(source, scenario.outcomes, queue, [totals[request.request_id] for request in queue])
    return RequestQueue(table, queue, outcomes.at_temperatures(scenario.controller.temperatures))

"""What a replay serves: the source's requests in queue order, when each arrives, and what is drafted for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from simtool.replay.outcomes.outcomes import Outcomes, find_outcomes
from simtool.replay.scenario import Scenario
from simtool.step.scheduler import Request
from simtool.trace.queue_order import queue_order
from simtool.trace.trace import Trace


@dataclass(frozen=True)
class RequestQueue:
    """table: the source's requests, as it queued them. requests: the same, by arrival in this replay.

    place: [requests of the table], the index of each among the requests. arrival_ns: by that index.
    """

    table: pl.DataFrame
    requests: list[Request]
    place: NDArray[np.int64]
    arrival_ns: NDArray[np.int64]
    outcomes: Outcomes


def queue_requests(source: Trace, scenario: Scenario) -> RequestQueue:
    """Queue a source's finished requests as a scenario's arrivals say; raises TraceError when there is none."""
    table = queue_order(source)
    arrivals = np.array(scenario.arrivals.times_ns(table["arrival_ns"].to_list(), scenario.seed), np.int64)
    order = np.argsort(arrivals, kind="stable")
    arrivals = arrivals[order]
    queued = table.select("request_id", "prompt_tokens", "max_new_tokens", "output_tokens")[order]
    names, prompts, limits, totals = (column.to_list() for column in queued)
    requests = list(map(Request, names, prompts, limits, arrivals.tolist()))
    outcomes = find_outcomes(source, scenario.outcomes, requests, totals)
    outcomes = outcomes.at_temperatures(scenario.controller.temperatures)
    return RequestQueue(table, requests, np.argsort(order), arrivals, outcomes)

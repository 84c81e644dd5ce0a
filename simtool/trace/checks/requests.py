"""Rules of `requests`: the life of a request in order, and its tokens counted once."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from simtool.trace.checks.finding import Finding, Rule, apply, duplicates
from simtool.trace.checks.numbered import rows_by_request
from simtool.trace.checks.stamps import check_stamps
from simtool.trace.trace import Trace

_OUTPUT, _ASKED = pl.col("output_tokens"), pl.col("max_new_tokens")
_DONE = pl.col("finished_ns").is_not_null()


def _after(later: str, earlier: str) -> Rule:
    return Rule(f"{later} is before {earlier}", pl.col(later) < pl.col(earlier), (earlier, later))


_RULES = (
    _after("admitted_ns", "arrival_ns"),
    _after("first_token_ns", "admitted_ns"),
    _after("finished_ns", "first_token_ns"),
    Rule("finish_reason is neither length nor stop", ~pl.col("finish_reason").is_in(["length", "stop"])),
    Rule("finished without a reason, or the reverse", pl.col("finish_reason").is_not_null() != _DONE),
    Rule("prompt_tokens is below 1", pl.col("prompt_tokens") < 1, ("prompt_tokens",)),
    Rule("output_tokens is outside 0..max_new_tokens", ~_OUTPUT.is_between(0, _ASKED), ("output_tokens",)),
    Rule(
        "finished by length, yet output_tokens is not max_new_tokens",
        (pl.col("finish_reason") == "length") & (_OUTPUT != _ASKED),
        ("output_tokens", "max_new_tokens"),
    ),
    Rule("prompt_ids does not hold prompt_tokens ids", pl.col("prompt_ids").list.len() != pl.col("prompt_tokens")),
    Rule("output_ids does not hold output_tokens ids", pl.col("output_ids").list.len() != _OUTPUT),
    Rule("output_margin does not hold output_tokens gaps", pl.col("output_margin").list.len() != _OUTPUT),
    Rule("output_margin has a negative gap", pl.col("output_margin").list.min() < 0),
    Rule(
        "output_tokens is not 1 (from the prefill) + what its rows emitted",
        _DONE & (pl.col("row_emitted").fill_null(0) + 1 != _OUTPUT),
        ("output_tokens", "row_emitted"),
    ),
)


def check_requests(trace: Trace) -> Iterator[Finding]:
    """Yield what is wrong in `requests`: in each by itself, against its rows, and against the times of the steps."""
    requests = trace.table("requests")
    served = rows_by_request(trace)
    view = requests.join(served.select("request_id", "row_emitted"), on="request_id", how="left").sort("request_id")
    yield from duplicates(requests, "requests", ("request_id",))
    yield from apply(_RULES, view, "requests", ("request_id",))
    yield from check_stamps(trace, served)

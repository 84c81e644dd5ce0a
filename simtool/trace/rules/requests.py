"""Rules of `requests`: the life of a request in order, and its tokens counted once."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from simtool.trace.bundle import Bundle
from simtool.trace.rules.finding import Finding, Rule, Severity, apply, duplicates

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


def _in_none(time: str, end: str) -> pl.Expr:
    """Whether a time is past the last step to start by it, or no step did."""
    return pl.col(time).is_not_null() & (pl.col(end).is_null() | (pl.col(time) > pl.col(end)))


_STEP_RULES = (
    Rule(
        "was admitted before the step before its prefill ended",
        pl.col("admitted_ns") < pl.col("before_end_ns"),
        ("admitted_ns", "before_end_ns"),
    ),
    Rule("first_token_ns lies in no prefill step", _in_none("first_token_ns", "first_end_ns"), ("first_token_ns",)),
    Rule("finished_ns lies in no step", _in_none("finished_ns", "last_end_ns"), ("finished_ns",)),
    Rule(
        "arrived longer before the first step than all steps took; from another run, or its clock was set",
        pl.col("run_start_ns") - pl.col("arrival_ns") > pl.col("run_end_ns") - pl.col("run_start_ns"),
        ("arrival_ns",),
        Severity.WARNING,
    ),
)


def check_requests(bundle: Bundle) -> Iterator[Finding]:
    """Yield what is wrong in `requests`: in each by itself, against its rows, and against the times of the steps."""
    requests = bundle.table("requests")
    emitted = bundle.table("rows").group_by("request_id").agg(row_emitted=pl.col("emitted").sum())
    view = requests.join(emitted, on="request_id", how="left").sort("request_id")
    yield from duplicates(requests, "requests", ("request_id",))
    yield from apply(_RULES, view, "requests", ("request_id",))
    yield from apply(_STEP_RULES, _with_steps(bundle), "requests", ("request_id",))


def _with_steps(bundle: Bundle) -> pl.DataFrame:
    """Requests with the steps that their times fall into, and when the run ran.

    before_end_ns: the end of the step before the prefill; a request is admitted between the two. first_end_ns,
    last_end_ns: ends of the last prefill, and of the last step, to start by the time of the first, the last token.
    Steps may share an instant, so of several that hold a time any will do: the bounds are the weakest.
    """
    steps = bundle.table("steps").sort("start_ns", "end_ns").with_columns(before=pl.col("end_ns").shift())
    prefills = steps.filter(pl.col("kind") == "prefill")
    view = bundle.table("requests")
    for time, among, value, name, same in (
        ("first_token_ns", prefills, "end_ns", "first_end_ns", True),
        ("first_token_ns", prefills, "before", "before_end_ns", False),
        ("finished_ns", steps, "end_ns", "last_end_ns", True),
    ):
        found = among.select(pl.col("start_ns").alias("at_ns"), pl.col(value).alias(name))
        ordered = view.sort(time)
        view = ordered.join_asof(found, left_on=time, right_on="at_ns", allow_exact_matches=same).drop("at_ns")
    start_ns, end_ns = steps["start_ns"].min(), steps["end_ns"].max()
    run = {"run_start_ns": pl.lit(start_ns, pl.Int64), "run_end_ns": pl.lit(end_ns, pl.Int64)}
    return view.with_columns(**run).sort("request_id")

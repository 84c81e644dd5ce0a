"""Rules of the times in `requests`: each lies where the steps say that it happened; first come is first served."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from simtool.step.ops import Lane
from simtool.trace.checks.finding import Finding, Rule, Severity, apply
from simtool.trace.trace import Trace

_KEY = ("request_id",)
_NEVER_NS = (1 << 63) - 1


def _after(late: str, early: str) -> pl.Expr:
    return pl.col(late) > pl.col(early)


_UNREAD = pl.col("prefill_to_ns").is_null() & pl.col("first_token_ns").is_not_null()

_RULES = (
    Rule(
        "first_token_ns is not when a prefill step had read its tokens",
        _UNREAD | _after("first_token_ns", "prefill_to_ns"),
        ("first_token_ns",),
    ),
    Rule(
        "first_token_ns is not from a prefill between its first row's step and the decode step before that",
        _after("first_token_ns", "first_row_ns") | _after("decode_before_ns", "first_token_ns"),
        ("first_token_ns", "decode_before_ns", "first_row_ns"),
    ),
    Rule(
        "was admitted before the step before its prefill ended",
        _after("before_end_ns", "admitted_ns"),
        ("admitted_ns", "before_end_ns"),
    ),
    Rule(
        "was admitted after its prefill started",
        _after("admitted_ns", "prefill_start_ns"),
        ("admitted_ns", "prefill_start_ns"),
    ),
    Rule(
        "finished_ns is not when the step of its last row had read its tokens",
        _after("last_from_ns", "finished_ns") | _after("finished_ns", "last_to_ns"),
        ("finished_ns", "last_from_ns", "last_to_ns"),
    ),
    Rule(
        "has no row, so its first token was its last, yet finished_ns is not first_token_ns",
        pl.col("last_row").is_null() & (pl.col("finished_ns") != pl.col("first_token_ns")),
        ("first_token_ns", "finished_ns"),
    ),
    Rule(
        "was admitted before a request that had arrived earlier",
        _after("earlier_admitted_ns", "admitted_ns"),
        ("arrival_ns", "admitted_ns", "earlier_admitted_ns"),
    ),
    # requests are queued one after another, then the first step starts: nothing there takes as long as a step
    Rule(
        "waited longer for the next arrival, or the first step, than any step took; from another run, or its clock was "
        "set",
        pl.min_horizontal("next_arrival_ns", "run_start_ns") - pl.col("arrival_ns") > pl.col("longest_ns"),
        ("arrival_ns",),
        Severity.WARNING,
    ),
)

_CLOSED = Rule(
    "arrived after the first step began, in a closed loop",
    _after("arrival_ns", "run_start_ns"),
    ("arrival_ns", "run_start_ns"),
)


def check_stamps(trace: Trace, served: pl.DataFrame) -> Iterator[Finding]:
    """Yield what is wrong with the times of requests, against the steps, the rows, and each other.

    served: as `rows_by_request`.

    Another engine may mix prefill with decode and schedule ahead: what these rules find in an import is a warning.
    """
    imported = trace.manifest.origin == "imported"
    yield from (replace(found, severity=Severity.WARNING) if imported else found for found in _found(trace, served))


def _found(trace: Trace, served: pl.DataFrame) -> Iterator[Finding]:
    steps = _with_reads(trace)
    requests = trace.columns("requests", "request_id", "arrival_ns", "admitted_ns", "first_token_ns", "finished_ns")
    view = _with_rows(served, _with_prefills(requests, steps), steps)
    view = view.sort("arrival_ns", "admitted_ns", "request_id").with_columns(
        next_arrival_ns=pl.col("arrival_ns").shift(-1),
        earlier_admitted_ns=pl.col("admitted_ns").cum_max().shift(),
    )
    lengths = pl.col("end_ns") - pl.col("start_ns")
    run = steps.select(run_start_ns=pl.col("start_ns").min(), longest_ns=lengths.max())
    view = view.join(run, how="cross").sort("request_id")
    yield from apply(_RULES, view, "requests", _KEY)
    if trace.manifest.run.closed_loop:
        yield from apply([_CLOSED], view, "requests", _KEY)


def _with_reads(trace: Trace) -> pl.DataFrame:
    """Steps in order of time with from_ns, to_ns: when their tokens were on the host.

    That is the end of read_tokens, past its wait; of a step without that op, any of its time. Another engine notes it
    when it gets to it, at the latest before its next step.
    """
    names = ("step", "op", "lane", "wait_end_ns", "end_ns")
    read = (pl.col("op") == "read_tokens") & (pl.col("lane") == Lane.HOST.value)
    found = [events.filter(read).unique("step", keep="any") for events in trace.stretches("events", *names)]
    reads = pl.concat(found or [trace.columns("events", *names)])
    spans = reads.select("step", from_ns="wait_end_ns", to_ns="end_ns")
    steps = trace.columns("steps", "step", "kind", "start_ns", "end_ns").join(spans, on="step", how="left")
    told = steps.with_columns(from_ns=pl.coalesce("from_ns", "start_ns"), to_ns=pl.coalesce("to_ns", "end_ns"))
    ordered = told.sort("start_ns", "end_ns")
    if trace.manifest.origin != "imported":
        return ordered
    until = pl.max_horizontal("to_ns", "end_ns", pl.col("start_ns").shift(-1, fill_value=_NEVER_NS))
    return ordered.with_columns(to_ns=until)


def _with_prefills(requests: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Add prefill_start_ns and prefill_to_ns of the prefill step that gave the first token, and before_end_ns: the end
    of the step before it.

    Steps may share an instant, so of several that hold a time any will do: the bounds are the weakest.
    """
    prefills = steps.with_columns(before=pl.col("end_ns").shift()).filter(pl.col("kind") == "prefill")
    read = prefills.select(at_ns="from_ns", prefill_start_ns="start_ns", prefill_to_ns="to_ns").sort("at_ns")
    begun = prefills.select(at_ns="start_ns", before_end_ns="before")
    view = requests.sort("first_token_ns")
    view = view.join_asof(read, left_on="first_token_ns", right_on="at_ns").drop("at_ns")
    return view.join_asof(begun, left_on="first_token_ns", right_on="at_ns", allow_exact_matches=False).drop("at_ns")


def _with_rows(served: pl.DataFrame, requests: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Add first_row_ns and decode_before_ns: the start of the step of its first row, and the end of the decode step
    before that; and last_from_ns, last_to_ns: when the tokens of its last row were on the host.
    """
    decodes = steps.filter(pl.col("kind") == "decode")
    first = decodes.select(first_row="step", first_row_ns="start_ns", decode_before_ns=pl.col("end_ns").shift())
    last = decodes.select(last_row="step", last_from_ns="from_ns", last_to_ns="to_ns")
    view = requests.join(served.drop("row_emitted"), on="request_id", how="left")
    return view.join(first, on="first_row", how="left").join(last, on="last_row", how="left")

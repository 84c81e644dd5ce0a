"""Rules of `outcomes`: what is known of each anchor agrees with what the rows saw, and how many anchors are known."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from simtool.trace.checks.finding import Finding, Rule, Severity, apply, bad_probabilities, duplicates, outside
from simtool.trace.trace import Trace

_KEY = ("request_id", "anchor_position")


def check_outcomes(trace: Trace) -> Iterator[Finding]:
    """Yield what is wrong in `outcomes`. With temperature > 0 an outcome is one draw, so agreement is not asked."""
    outcomes, sl = trace.table("outcomes"), trace.manifest.sl
    rules = [
        outside("source", ("visited", "filled")),
        Rule("match_run is outside 0..SL", ~pl.col("match_run").is_between(0, sl), ("match_run",)),
        *bad_probabilities("confidence", sl),
        *bad_probabilities("draft_prob", sl),
    ]
    yield from duplicates(outcomes, "outcomes", (*_KEY, "source"))
    yield from apply(rules, outcomes, "outcomes", (*_KEY, "source"))
    if trace.manifest.complete and trace.manifest.origin != "imported":
        yield from _links(trace)
    if not trace.manifest.sampling.get("temperature"):
        yield from _agreement(trace)
    yield from _coverage(trace)


def _links(trace: Trace) -> Iterator[Finding]:
    """An anchor is a token that its request emitted."""
    requests = trace.table("requests").select("request_id", "prompt_tokens", "output_tokens")
    view = trace.table("outcomes").join(requests, on="request_id", how="left").sort(*_KEY)
    first, count = pl.col("prompt_tokens"), pl.col("output_tokens")
    rules = (
        Rule("its request is not in requests", first.is_null()),
        Rule(
            "the anchor lies in the prompt or past the output",
            ~pl.col("anchor_position").is_between(first, first + count - 1),
            ("prompt_tokens", "output_tokens"),
        ),
    )
    yield from apply(rules, view, "outcomes", (*_KEY, "source"))


def _agreement(trace: Trace) -> Iterator[Finding]:
    """Accepted is min(prefix_len, match_run), exactly where visited; a filled anchor may differ by rounding.

    Where the run could not see the match run, it says nothing: a replay goes by the filled one there.
    """
    for source, severity in (("visited", Severity.ERROR), ("filled", Severity.WARNING)):
        known = trace.table("outcomes").filter(pl.col("source") == source).select(*_KEY, "match_run")
        known = known.drop_nulls("match_run")
        view = trace.table("rows").join(known, on=list(_KEY), how="inner").sort(*_KEY, "step")
        rule = Rule(
            f"accepted is not min(prefix_len, match_run) of its {source} outcome",
            pl.col("accepted") != pl.min_horizontal("prefix_len", "match_run"),
            ("accepted", "prefix_len", "match_run"),
            severity,
        )
        yield from apply([rule], view, "rows", ("step", *_KEY))


def _coverage(trace: Trace) -> Iterator[Finding]:
    """Anchors a decode step could start from: every output token but the last."""
    anchors = trace.table("requests").select(
        "request_id",
        anchor_position=pl.int_ranges(
            pl.col("prompt_tokens"), pl.col("prompt_tokens") + (pl.col("output_tokens") - 1).clip(0), dtype=pl.Int32
        ),
    )
    wanted = anchors.filter(pl.col("anchor_position").list.len() > 0).explode("anchor_position")
    known = trace.table("outcomes").filter(pl.col("match_run").is_not_null())
    unknown = wanted.join(known, on=list(_KEY), how="anti").sort(_KEY)
    if unknown.height:
        message = f"anchors of {wanted.height} have no known outcome; a replay must substitute where it needs one"
        request_id, anchor = unknown.row(0)
        first = f"request_id {request_id}, anchor_position {anchor}"
        yield Finding(severity=Severity.NOTE, table="outcomes", message=message, count=unknown.height, first=first)

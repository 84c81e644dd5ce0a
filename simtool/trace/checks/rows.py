"""Rules of `rows`: offered, accepted and emitted counts, and how a request's anchor moves from step to step."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from simtool.trace.checks.finding import Finding, Rule, Severity, apply, bad_probabilities, duplicates
from simtool.trace.manifest import Manifest
from simtool.trace.trace import Trace

_KEY = ("step", "slot", "request_id")


def check_rows(trace: Trace) -> Iterator[Finding]:
    """Yield what is wrong in `rows`."""
    rows = trace.table("rows")
    yield from duplicates(rows, "rows", ("step", "slot"))
    yield from duplicates(rows, "rows", ("step", "request_id"))
    yield from apply(_count_rules(trace.manifest.sl), rows, "rows", _KEY)
    if not _splits_on_device(trace):  # there a share goes by this step's confidence, which everyone has
        stale = ~pl.col("fresh") & (pl.col("prefix_len") < trace.manifest.sl)
        yield from apply([Rule("without fresh confidence, yet pruned", stale, ("prefix_len",))], rows, "rows", _KEY)
    yield from apply(_ANCHOR_RULES, _with_next(rows), "rows", _KEY)
    links = _with_links(trace, rows)
    yield from apply(_LINK_RULES, links, "rows", _KEY)
    yield from apply([_without_request(trace.manifest)], links, "rows", _KEY)


def _without_request(manifest: Manifest) -> Rule:
    """A request is written when it is finished, so in a trace cut short some are missing; an import may know none."""
    if not manifest.complete:
        message, severity = "rows of requests that were still running when the writer was stopped", Severity.NOTE
    else:
        message = "its request is not in requests"
        severity = Severity.WARNING if manifest.origin == "imported" else Severity.ERROR
    return Rule(message, pl.col("prompt_tokens").is_null(), (), severity)


def _splits_on_device(trace: Trace) -> bool:
    order = (trace.manifest.placement or {}).get("order")
    return isinstance(order, list) and "decide_budget" in order


def _count_rules(sl: int) -> list[Rule]:
    prefix, accepted, emitted = pl.col("prefix_len"), pl.col("accepted"), pl.col("emitted")
    return [
        Rule("prefix_len is outside 0..SL", ~prefix.is_between(0, sl), ("prefix_len",)),
        Rule("accepted is outside 0..prefix_len", ~accepted.is_between(0, prefix), ("accepted", "prefix_len")),
        Rule("emitted is outside 1..accepted + 1", ~emitted.is_between(1, accepted + 1), ("emitted", "accepted")),
        Rule("kv_len is not anchor_position", pl.col("kv_len") != pl.col("anchor_position"), ("kv_len",)),
        Rule("draft_tokens does not hold SL tokens", pl.col("draft_tokens").list.len() != sl),
        *bad_probabilities("confidence", sl),
        *bad_probabilities("draft_prob", sl),
    ]


_ANCHOR_RULES = (
    Rule(
        "the request's next anchor is not anchor_position + emitted",
        pl.col("next_anchor") != pl.col("anchor_position") + pl.col("emitted"),
        ("anchor_position", "emitted", "next_anchor"),
    ),
    Rule(
        "emitted is cut short, yet the request goes on",
        (pl.col("emitted") < pl.col("accepted") + 1) & pl.col("next_anchor").is_not_null(),
        ("emitted", "accepted"),
    ),
)

_LINK_RULES = (
    Rule("belongs to no decode step", pl.col("kind").fill_null("") != "decode"),
    Rule(
        "the anchor lies in the prompt or past the output",
        ~pl.col("anchor_position").is_between(
            pl.col("prompt_tokens"), pl.col("prompt_tokens") + pl.col("output_tokens") - 1
        ),
        ("anchor_position", "prompt_tokens", "output_tokens"),
    ),
)


def _with_next(rows: pl.DataFrame) -> pl.DataFrame:
    ordered = rows.sort("request_id", "step")
    return ordered.with_columns(next_anchor=pl.col("anchor_position").shift(-1).over("request_id")).sort(_KEY)


def _with_links(trace: Trace, rows: pl.DataFrame) -> pl.DataFrame:
    kinds = trace.table("steps").select("step", "kind")
    requests = trace.table("requests").select("request_id", "prompt_tokens", "output_tokens")
    return rows.join(kinds, on="step", how="left").join(requests, on="request_id", how="left").sort(_KEY)

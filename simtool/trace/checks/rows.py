"""Rules of `rows`: offered, accepted and emitted counts, and how a request's anchor moves from step to step."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from simtool.trace.checks.finding import Finding, Rule, Severity, Tally, bad_probabilities
from simtool.trace.manifest import Manifest
from simtool.trace.trace import Trace

_KEY = ("step", "slot", "request_id")


def check_rows(trace: Trace) -> Iterator[Finding]:
    """Yield what is wrong in `rows`."""
    tally, last = Tally("rows", _KEY), None
    kinds = trace.columns("steps", "step", "kind")
    requests = trace.columns("requests", "request_id", "prompt_tokens", "output_tokens").unique("request_id")
    # another policy may cut what it knows nothing of, and on the device a share goes by what this step knows of all
    lenient = (trace.manifest.placement or {}).get("policy") is not None or _splits_on_device(trace)
    for rows in trace.stretches("rows"):
        tally.alike(("step", "slot"), rows)
        tally.alike(("step", "request_id"), rows)
        tally.add(_count_rules(trace.manifest.sl), rows)
        if not lenient:
            stale = ~pl.col("fresh") & (pl.col("prefix_len") < trace.manifest.sl)
            tally.add([Rule("without fresh confidence, yet pruned", stale, ("prefix_len",))], rows)
        followed, last = _with_next(rows, last)
        tally.add(_ANCHOR_RULES, followed)
        links = rows.join(kinds, on="step", how="left").join(requests, on="request_id", how="left")
        tally.add(_LINK_RULES, links)
        tally.add([_without_request(trace.manifest)], links)
    yield from tally.findings()


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


_ANCHOR = (*_KEY, "anchor_position", "emitted", "accepted")


def _with_next(rows: pl.DataFrame, last: pl.DataFrame | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return rows that are followed by another of their request, with next_anchor, and each request's last row.

    last: the last rows before these.
    """
    here = rows.select(_ANCHOR)
    ordered = (here if last is None else pl.concat([last, here])).sort("request_id", "step")
    ordered = ordered.with_columns(next_anchor=pl.col("anchor_position").shift(-1).over("request_id"))
    goes_on = pl.col("next_anchor").is_not_null()
    return ordered.filter(goes_on), ordered.filter(~goes_on).select(_ANCHOR)

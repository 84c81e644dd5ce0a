"""Rules of `rows`: offered, accepted and emitted counts, and how a request's anchor moves from step to step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from simtool.trace.checks.finding import Finding, Rule, Severity, Tally
from simtool.trace.checks.numbered import NumberedRequests, beside, in_turn, numbered_requests, steps_of
from simtool.trace.manifest import Manifest
from simtool.trace.places import Ints
from simtool.trace.trace import Trace

_KEY = ("step", "slot", "request_id")


def check_rows(trace: Trace) -> Iterator[Finding]:
    """Yield what is wrong in `rows`."""
    tally, requests = Tally("rows", _KEY), numbered_requests(trace)
    kinds = trace.columns("steps", "step", "kind")
    last = _LastRows(requests)
    # another policy may cut what it knows nothing of, and on the device a share goes by what this step knows of all
    lenient = (trace.manifest.placement or {}).get("policy") is not None or _splits_on_device(trace)
    for rows in trace.stretches("rows"):
        number = requests.numbers.of(rows["request_id"])
        tally.alike(("step", "slot"), rows)
        tally.alike(("step", "request_id"), rows.clear() if _differ(rows["step"], number) else rows)
        tally.add(_count_rules(trace.manifest.sl), rows)
        tally.probabilities("confidence", trace.manifest.sl, rows)
        tally.probabilities("draft_prob", trace.manifest.sl, rows)
        if not lenient:
            stale = ~pl.col("fresh") & (pl.col("prefix_len") < trace.manifest.sl)
            tally.add([Rule("without fresh confidence, yet pruned", stale, ("prefix_len",))], rows)
        tally.add(_ANCHOR_RULES, last.followed_by(rows, number))
        links = beside(rows.select(*_KEY, "anchor_position"), kinds.select("kind"), steps_of(kinds, rows["step"]))
        links = beside(links, requests.table.select("prompt_tokens", "output_tokens"), number)
        tally.add(_LINK_RULES, links)
        tally.add([_without_request(trace.manifest)], links)
    yield from tally.findings()


def _differ(step: pl.Series, number: Ints) -> bool:
    """Whether no two rows are of one step and one request."""
    key = np.sort(step.cast(pl.Int64).to_numpy() * (int(number.max(initial=0)) + 1) + number)
    return bool((key[1:] != key[:-1]).all())


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


_KEPT = ("step", "slot", "anchor_position", "emitted", "accepted")


class _LastRows:
    """The last row of each request, as far as rows were looked at."""

    def __init__(self, requests: NumberedRequests) -> None:
        self._ids = requests.table["request_id"]
        self._there = np.zeros(len(self._ids), np.bool_)
        self._last = {name: np.zeros(len(self._ids), np.int32) for name in _KEPT}

    def followed_by(self, rows: pl.DataFrame, number: Ints) -> pl.DataFrame:
        """Return each row that one of these follows, of the same request, with next_anchor: that one's."""
        turns = in_turn(number)
        here = {name: rows[name].to_numpy()[turns.order] for name in _KEPT}
        new = turns.number[turns.first]
        again = turns.first[self._there[new]]  # where a request goes on that had rows before these
        goes_on = np.flatnonzero(turns.number[1:] == turns.number[:-1])
        old = turns.number[again]
        followed = {name: np.concatenate([self._last[name][old], here[name][goes_on]]) for name in _KEPT}
        anchors = here["anchor_position"]
        next_anchor = np.concatenate([anchors[again], anchors[goes_on + 1]])
        ids = self._ids.gather(np.concatenate([old, turns.number[goes_on]]))
        self._there[new] = True
        for name, column in here.items():
            self._last[name][new] = column[turns.last]
        return pl.DataFrame({"request_id": ids, **followed, "next_anchor": next_anchor})

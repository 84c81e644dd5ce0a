"""Rules of `outcomes`: what is known of each anchor agrees with what the rows saw, and how many anchors are known."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from simtool.trace.checks.finding import Finding, Rule, Severity, Tally, outside
from simtool.trace.checks.numbered import beside
from simtool.trace.parquet_size import MOST_VALUES
from simtool.trace.places import Ints, Places, places_of
from simtool.trace.trace import Trace

_KEY = ("request_id", "anchor_position")
#: How grave it is when a source's outcome and a row disagree.
_SOURCES = {"visited": Severity.ERROR, "filled": Severity.WARNING}


_FIRST, _COUNT = pl.col("prompt_tokens"), pl.col("output_tokens")

#: An anchor is a token that its request emitted.
_LINKS = (
    Rule("its request is not in requests", _FIRST.is_null()),
    Rule(
        "the anchor lies in the prompt or past the output",
        ~pl.col("anchor_position").is_between(_FIRST, _FIRST + _COUNT - 1),
        ("prompt_tokens", "output_tokens"),
    ),
)


def check_outcomes(trace: Trace) -> Iterator[Finding]:
    """Yield what is wrong in `outcomes`. With temperature > 0 an outcome is one draw, so agreement is not asked."""
    sl = trace.manifest.sl
    rules = [
        outside("source", ("visited", "filled")),
        Rule("match_run is outside 0..SL", ~pl.col("match_run").is_between(0, sl), ("match_run",)),
    ]
    places = _places(trace)
    if len(places) > MOST_VALUES:
        message = f"tell of {len(places):,} output tokens, and at most {MOST_VALUES:,} are looked at; cut the trace"
        yield Finding(Severity.ERROR, "requests", message)
        return
    tally, known = Tally("outcomes", (*_KEY, "source")), _KnownRuns(places, sl)
    tokens = _requests(trace).select("prompt_tokens", "output_tokens")
    for outcomes in trace.stretches("outcomes"):
        request = places.numbers.of(outcomes["request_id"])
        place = places.of(request, outcomes["anchor_position"].cast(pl.Int64).to_numpy())
        doubtful = outcomes.clear() if _one_after_another(place, outcomes["source"]) else outcomes
        tally.alike((*_KEY, "source"), doubtful)
        tally.add(rules, outcomes)
        tally.probabilities("confidence", sl, outcomes)
        tally.probabilities("draft_prob", sl, outcomes)
        if trace.manifest.complete and trace.manifest.origin != "imported":
            tally.add(_LINKS, beside(doubtful.select(*_KEY, "source"), tokens, request[: len(doubtful)]))
        known.add(outcomes, place)
    yield from tally.findings()
    if trace.manifest.settled:
        yield from _agreement(trace, known)
    yield from known.gaps()


def _one_after_another(place: Ints, source: pl.Series) -> bool:
    """Whether every outcome is of an anchor that there is, and each after the one before it: by anchor, then source."""
    visited, filled = ((source == name).to_numpy() for name in _SOURCES)
    rank = 2 * place + visited  # of one anchor the filled comes first, as in the alphabet
    return bool((place >= 0).all() and (visited | filled).all() and (rank[1:] > rank[:-1]).all())


def _requests(trace: Trace) -> pl.DataFrame:
    requests = trace.columns("requests", "request_id", "prompt_tokens", "output_tokens").unique("request_id")
    return requests.sort("request_id")


def _places(trace: Trace) -> Places:
    """Every anchor that a decode step could start from: of every output token but the last."""
    requests = _requests(trace)
    prompts, outputs = (requests[name].cast(pl.Int64).to_numpy() for name in ("prompt_tokens", "output_tokens"))
    return places_of(requests["request_id"], prompts, np.maximum(outputs - 1, 0))


class _KnownRuns:
    """Match runs by source and place; those of anchors that no request has, or that no block can have, lie apart."""

    def __init__(self, places: Places, drafts: int) -> None:
        self._places, self._most = places, min(drafts, np.iinfo(np.int8).max)
        self._runs = {source: np.full(len(places), -1, np.int8) for source in _SOURCES}
        self._apart: list[pl.DataFrame] = []

    def add(self, outcomes: pl.DataFrame, place: Ints) -> None:
        """Take what is known in a stretch of outcomes. place: of each one's anchor."""
        told = outcomes.select(*_KEY, "match_run", "source")
        known, run = told["match_run"].is_not_null().to_numpy(), told["match_run"].fill_null(-1).to_numpy()
        fits = known & (place >= 0) & (run >= 0) & (run <= self._most)
        for source, runs in self._runs.items():
            mine = fits & (told["source"] == source).to_numpy()
            runs[place[mine]] = run[mine]
        if not fits[known].all():
            self._apart.append(told.filter(known & ~fits))

    def beside(self, rows: pl.DataFrame, place: Ints, source: str) -> pl.DataFrame:
        """Return the rows of which a source knows the match run, with it. place: of each one's anchor."""
        run = np.where(place >= 0, self._runs[source][place], np.int8(-1)) if len(self._places) else place
        found = rows.with_columns(match_run=pl.Series(run, dtype=pl.Int32)).filter(pl.col("match_run") >= 0)
        for apart in self._apart:
            mine = apart.filter(pl.col("source") == source).drop("source")
            found = pl.concat([found, rows.join(mine, on=list(_KEY), how="inner")])
        return found

    def gaps(self) -> Iterator[Finding]:
        """Yield how many anchors nothing is known of, and the first of them."""
        known = np.zeros(len(self._places), np.bool_)
        for runs in self._runs.values():
            known |= runs >= 0
        for apart in self._apart:
            place = self.place(apart)
            known[place[place >= 0]] = True
        unknown = np.flatnonzero(~known)
        if len(unknown):
            message = f"anchors of {len(known)} have no known outcome; a replay must substitute where it needs one"
            request, anchor = self._places.at(int(unknown[0]))
            first = f"request_id {self._places.numbers.names[request]}, anchor_position {anchor}"
            yield Finding(severity=Severity.NOTE, table="outcomes", message=message, count=len(unknown), first=first)

    def place(self, frame: pl.DataFrame) -> Ints:
        """Return the place of each row's anchor."""
        request = self._places.numbers.of(frame["request_id"])
        return self._places.of(request, frame["anchor_position"].cast(pl.Int64).to_numpy())


def _agreement(trace: Trace, known: _KnownRuns) -> Iterator[Finding]:
    """Accepted is min(prefix_len, match_run), exactly where visited; a filled anchor may differ by rounding.

    Where the run could not see the match run, it says nothing: a replay goes by the filled one there.
    """
    rules = {
        source: Rule(
            f"accepted is not min(prefix_len, match_run) of its {source} outcome",
            pl.col("accepted") != pl.min_horizontal("prefix_len", "match_run"),
            ("accepted", "prefix_len", "match_run"),
            severity,
        )
        for source, severity in _SOURCES.items()
    }
    tally = Tally("rows", ("step", *_KEY), (*_KEY, "step"))
    for rows in trace.stretches("rows", "step", *_KEY, "accepted", "prefix_len"):
        place = known.place(rows)
        for source, rule in rules.items():
            tally.add([rule], known.beside(rows, place, source))
    yield from tally.findings()

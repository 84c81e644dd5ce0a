"""Rules of the manifest: what it says of the run is what the rows show."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from simtool.errors import PlacementError, TraceError
from simtool.trace.checks.finding import Finding, Rule, Severity, Tally, apply
from simtool.trace.checks.numbered import in_turn, numbered_requests
from simtool.trace.trace import Trace

_KEY = ("step", "slot", "request_id")


def check_manifest(trace: Trace) -> Iterator[Finding]:
    """Yield where the manifest and the tables contradict each other."""
    if trace.manifest.origin == "imported":
        return
    yield from _sizes(trace)
    yield from _age_of_confidence(trace)


def _sizes(trace: Trace) -> Iterator[Finding]:
    """How many ran at once, how wide their blocks were, in which placement."""
    manifest, decodes = trace.manifest, trace.columns("steps", "step", "kind", "batch", "placement")
    decodes = decodes.filter(pl.col("kind") == "decode")
    rule = Rule(
        f"more sequences than the manifest's concurrency, {manifest.concurrency}",
        pl.col("batch") > manifest.concurrency,
        ("batch",),
    )
    yield from apply([rule], decodes, "steps", ("step",))
    slots = trace.columns("rows", "slot")["slot"].n_unique()
    if slots > manifest.concurrency:
        yield Finding(
            Severity.ERROR, "rows", f"{slots} slots, and the manifest's concurrency is {manifest.concurrency}", slots
        )
    if slots and manifest.block_width not in (manifest.sl, manifest.sl + 1):
        message = f"block_width is {manifest.block_width}; a block of SL {manifest.sl} is that wide, or one more"
        yield Finding(Severity.ERROR, "manifest", message)
    name = (manifest.placement or {}).get("name")
    rule = Rule(f"the manifest's placement is {name}", pl.col("placement") != str(name), ("placement",))
    yield from apply([rule], decodes, "steps", ("step",))


def _age_of_confidence(trace: Trace) -> Iterator[Finding]:
    """At lag k a request's first k decode steps have no confidence old enough, and every later one has."""
    try:
        placement = trace.placement
    except (TraceError, PlacementError):
        return  # said by itself
    if not placement.lag_steps:
        return
    rule = Rule(
        f"fresh does not follow from the manifest's lag_steps, {placement.lag_steps}",
        pl.col("fresh") != (pl.col("decode_steps_before") >= placement.lag_steps),
        ("fresh", "decode_steps_before"),
    )
    tally = Tally("rows", _KEY)
    for view in _with_steps_before(trace):
        tally.add([rule], view)
    yield from tally.findings()


def _with_steps_before(trace: Trace) -> Iterator[pl.DataFrame]:
    """Yield the rows with decode_steps_before: how many their request had, a stretch after the other."""
    requests = numbered_requests(trace)
    had = np.zeros(len(requests.table), np.int64)
    for rows in trace.stretches("rows", *_KEY, "fresh"):
        turns = in_turn(requests.numbers.of(rows["request_id"]))
        counts = turns.last - turns.first + 1
        before = np.empty(len(rows), np.int64)
        before[turns.order] = np.arange(len(rows)) - np.repeat(turns.first, counts) + had[turns.number]
        had[turns.number[turns.first]] += counts
        yield rows.with_columns(decode_steps_before=before)

"""Putting the ops' names on calls and work, where rules are given."""

from __future__ import annotations

import polars as pl

from simtool.step.ops import CATALOGUE
from simtool.trace.importers.timeline import CALLS, Timeline
from simtool.trace.importers.to_events.rules import OTHER, Named, NamingRules

_SHOWN = 10


def with_ranges(timeline: Timeline, rules: NamingRules | None) -> pl.DataFrame:
    """Return the calls with `op` (null: no rule) and, as calls of their own, the ranges that a rule names."""
    if rules is None:
        return timeline.calls.with_columns(op=pl.lit(None, pl.String))
    calls = timeline.calls.with_columns(op=rules.ops(Named.CALL, timeline.calls["name"]))
    ranges = timeline.ranges.with_columns(op=rules.ops(Named.RANGE, timeline.ranges["name"]))
    rows = ranges.filter(pl.col("op").is_not_null()).with_columns(
        link=pl.lit(None, pl.Int64),
        waits=pl.lit(False),
        waits_stream=pl.lit(None, pl.Categorical()),
        waits_until_ns=pl.lit(None, pl.Int64),
    )
    return pl.concat([rows.select(*CALLS, "op"), calls.select(*CALLS, "op")])


def name_events(events: pl.DataFrame, works: pl.DataFrame, rules: NamingRules | None) -> pl.DataFrame:
    """Put ops in the place of the profile's own names, which go to `source`. events: has `named`, the op of a call."""
    if rules is None:
        return events.drop("named")
    by_rule = rules.ops(Named.WORK, works["name"])
    host = events.filter(pl.col("lane") == "host").select("flow", launcher="named")
    device = (
        events.filter(pl.col("lane") != "host")
        .with_columns(by_rule=by_rule)
        .join(host, on="flow", how="left", maintain_order="left")
        .with_columns(named=pl.coalesce("by_rule", _work_of("launcher", "lane")))
        .drop("by_rule", "launcher")
    )
    both = pl.concat([events.filter(pl.col("lane") == "host"), device])
    return both.with_columns(source="op", op=pl.col("named").fill_null(OTHER)).drop("named")


def _work_of(op: str, lane: str) -> pl.Expr:
    """The work that an op launches on a lane, else the last work of the op: what it is there for."""
    exact = {(name, work.lane.value): work.name for name, each in CATALOGUE.items() for work in each.works}
    last = {name: each.works[-1].name for name, each in CATALOGUE.items() if each.works}
    keyed = {f"{name} {lane_name}": work for (name, lane_name), work in exact.items()}
    on_lane = pl.concat_str([op, pl.col(lane)], separator=" ").replace_strict(
        keyed, default=None, return_dtype=pl.String
    )
    return pl.coalesce(on_lane, pl.col(op).replace_strict(last, default=None, return_dtype=pl.String))


def tell_naming(events: pl.DataFrame, rules: NamingRules | None) -> dict[str, object] | None:
    """Return how many events each op got, and what stayed without one."""
    if rules is None:
        return None
    other = events.filter(pl.col("op") == OTHER)
    named = events.filter(pl.col("op") != OTHER)["op"].value_counts(sort=True)
    left = other["source"].value_counts(sort=True)
    return {
        "rules": rules.source,
        "named": dict(named.iter_rows()),
        "other": other.height,
        "other_names": dict(left.head(_SHOWN).iter_rows()),
        "other_names_not_shown": max(left.height - _SHOWN, 0),
    }

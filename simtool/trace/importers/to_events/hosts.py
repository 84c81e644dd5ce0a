"""Which host calls belong to a device's work: one process of the profile, and of its threads the outermost calls."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from simtool.trace.importers.ledger import Ledger

_INSIDE = "host calls inside another call"


@dataclass(frozen=True)
class Hosts:
    """calls: the outermost calls in order of time, with `flow` 1, 2, ..., and the wait inside each.

    Their columns are those of CALLS besides wait_start_ns and wait_end_ns (null: it does not wait).
    flows: link -> flow. What a call inside another one launched counts as launched by the outer one.
    """

    process: str | None
    calls: pl.DataFrame
    flows: pl.DataFrame


def find_hosts(calls: pl.DataFrame, works: pl.DataFrame, ledger: Ledger) -> Hosts:
    """Choose the process that launched most of the work, and number its outermost calls."""
    process = _process_of(calls, works)
    mine = calls.filter(pl.col("process") == process) if process is not None else calls.clear()
    ledger.drop("host calls of other processes", calls.height - mine.height)
    placed = _place_inside(_of_use(mine, works, ledger))
    outer = placed.filter(~pl.col("inside"))
    ledger.drop(_INSIDE, placed.height - outer.height)
    flows = (
        placed.lazy()
        .filter(pl.col("link").is_not_null())
        .sort("start_ns", "end_ns", descending=[False, True])
        .unique("link", keep="first", maintain_order=True)
        .select("link", "flow")
        .collect()
    )
    return Hosts(process, _with_waits(outer, placed), flows)


def _process_of(calls: pl.DataFrame, works: pl.DataFrame) -> str | None:
    """The process that launched most of the work before it ran; of equals, the one with the shortest delays."""
    if calls.is_empty():
        return None
    processes = calls["process"].unique()
    if processes.len() == 1:
        return str(processes[0])
    delay_ns = pl.col("start_ns_right") - pl.col("start_ns")
    linked = (
        calls.lazy()
        .filter(pl.col("link").is_not_null())
        .join(works.lazy().select("link", "start_ns"), on="link")
        .filter(delay_ns >= 0)
        .group_by("process")
        .agg(launched=pl.len().cast(pl.Int64), delay_ns=delay_ns.median())
    )
    ranked = (
        calls.lazy()
        .group_by("process")
        .agg(calls=pl.len().cast(pl.Int64))
        .join(linked, on="process", how="left")
        .with_columns(name=pl.col("process").cast(pl.String))
        .sort(
            -pl.col("launched").fill_null(0), pl.col("delay_ns").fill_null(0), -pl.col("calls").cast(pl.Int64), "name"
        )
        .collect()
    )
    return str(ranked["name"][0])


def _of_use(calls: pl.DataFrame, works: pl.DataFrame, ledger: Ledger) -> pl.DataFrame:
    """All calls of the thread that launches most, and the launches and waits of the others: some only poll."""
    if calls["thread"].n_unique() < 2:
        return calls
    links = works.lazy().select("link").drop_nulls().unique().with_columns(launches=True)
    marked = calls.lazy().join(links, on="link", how="left", maintain_order="left").collect()
    counts = marked.group_by(pl.col("thread").cast(pl.String)).agg(pl.col("launches").sum(), calls=pl.len())
    main = counts.sort("launches", "calls", "thread", descending=[True, True, False])["thread"][0]
    of_use = pl.col("launches").fill_null(False) | pl.col("waits") | pl.col("op").is_not_null()
    kept = marked.filter((pl.col("thread") == main) | of_use)
    ledger.drop("calls on other threads that neither launch nor wait", calls.height - kept.height)
    return kept.drop("launches")


def _place_inside(calls: pl.DataFrame) -> pl.DataFrame:
    """Sort the calls by time and add `flow`, the number of the outermost call around each, and whether it is inside."""
    if calls["thread"].n_unique() < 2:
        return _place_in_thread(calls)
    reach_ns = pl.col("end_ns").cum_max().shift().over("thread")
    inside = (pl.col("start_ns") < reach_ns) & (pl.col("end_ns") <= reach_ns)
    ordered = calls.sort("thread", "start_ns", "end_ns", descending=[False, False, True], maintain_order=True)
    placed = ordered.with_columns(inside=inside.fill_null(False))
    numbers = (
        placed.with_columns(outer=(~pl.col("inside")).cum_sum())
        .with_row_index("row")
        .sort("start_ns", "end_ns", "row", descending=[False, True, False])
        .with_columns(flow=pl.when(~pl.col("inside")).then((~pl.col("inside")).cum_sum()))
        .sort("row")
        .with_columns(flow=pl.col("flow").forward_fill().cast(pl.Int64))
    )
    return numbers.drop("row", "outer").sort("start_ns", "end_ns", descending=[False, True], maintain_order=True)


def _place_in_thread(calls: pl.DataFrame) -> pl.DataFrame:
    """The same for the calls of one thread, whose order of time is the order of all."""
    reach_ns = pl.col("end_ns").cum_max().shift()
    inside = ((pl.col("start_ns") < reach_ns) & (pl.col("end_ns") <= reach_ns)).fill_null(False)
    ordered = calls.sort("start_ns", "end_ns", descending=[False, True], maintain_order=True)
    return ordered.with_columns(inside=inside).with_columns(flow=(~pl.col("inside")).cum_sum().cast(pl.Int64))


def _with_waits(outer: pl.DataFrame, placed: pl.DataFrame) -> pl.DataFrame:
    """Give every outermost call the wait in it: its own, or the span from its first to its last inner wait."""
    waits = (
        placed.lazy()
        .filter("waits")
        .group_by("flow")
        .agg(
            wait_start_ns=pl.col("start_ns").min(),
            wait_end_ns=pl.col("end_ns").max(),
            wait_stream=pl.col("waits_stream").sort_by("end_ns").last(),
            wait_until_ns=pl.col("waits_until_ns").sort_by("end_ns").last(),
        )
    )
    return (
        outer.lazy()
        .drop("waits_stream", "waits_until_ns", "waits")
        .join(waits, on="flow", how="left", maintain_order="left")
        .sort("flow")
        .collect()
    )

"""What a study replays of a trace: its requests and outcomes, again and again when it has too few to fill a batch."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from simtool.errors import UsageError
from simtool.trace.bundle import Bundle


def workload(bundle: Bundle, repeats: int = 1) -> Bundle:
    """Return the bundle's finished requests, queued `repeats` times over; the copies emit what the original did.

    Steps and events are left behind: a replay makes its own. Raises UsageError unless repeats is 1 or more.
    """
    if repeats < 1:
        raise UsageError(f"requests repeated {repeats} times; expected 1 or more")
    requests = bundle.table("requests").filter(pl.col("finished_ns").is_not_null())
    period_ns = _whole(requests["admitted_ns"].max()) + 1
    later = [pl.col("admitted_ns") + copy * period_ns for copy in range(repeats)]
    tables = {
        "requests": pl.concat([_named(requests.with_columns(at), copy) for copy, at in enumerate(later)]),
        "rows": _copies(bundle.table("rows"), repeats),
        "outcomes": _copies(bundle.table("outcomes"), repeats),
    }
    return Bundle(bundle.path, bundle.manifest, tables)


def repeats_for(bundle: Bundle, concurrency: int, waves: int = 2) -> int:
    """Return how often the requests must be queued so that each slot serves `waves` of them."""
    finished = bundle.table("requests")["finished_ns"].count()
    return max(1, -(-concurrency * waves // max(finished, 1)))


def check_concurrency(source: Bundle, concurrencies: Sequence[int]) -> None:
    """Refuse a concurrency below 1, and one that the requests cannot fill."""
    finished = source.table("requests")["finished_ns"].count()
    for concurrency in concurrencies:
        if concurrency < 1:
            raise UsageError(f"--concurrency {concurrency}: expected 1 or more")
        if concurrency > finished:
            raise UsageError(
                f"--concurrency {concurrency}: only {finished} finished requests of {source.path} are queued, so that "
                "many never run at once; record more prompts, or queue them several times with --repeat-requests"
            )


def _copies(table: pl.DataFrame, repeats: int) -> pl.DataFrame:
    return pl.concat([_named(table, copy) for copy in range(repeats)])


def _named(table: pl.DataFrame, copy: int) -> pl.DataFrame:
    return table.with_columns(pl.col("request_id") + f"#{copy + 1}") if copy else table


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0

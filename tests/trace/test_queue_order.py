"""The order of a queue: by arrival and admission, and of those admitted together by slot, whoever tells it."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from simtool.trace.frames import make_frame
from simtool.trace.queue_order import queue_order
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace
from tests.trace.small import small_manifest, small_tables


def small_trace(*, slots: list[int | None] | None = None, rows: bool = True) -> Trace:
    """Two requests that came and were admitted together; slots: as their own column tells them."""
    frames = {name: make_frame(TABLES[name], columns) for name, columns in small_tables().items()}
    if slots is not None:
        frames["requests"] = frames["requests"].with_columns(slot=pl.Series(slots, dtype=pl.Int32))
    if not rows:
        del frames["rows"]
    return Trace(Path("nowhere"), small_manifest(), frames)


def names(trace: Trace) -> list[str]:
    return queue_order(trace)["request_id"].to_list()


def test_rows_tell_the_slots_where_the_requests_do_not() -> None:
    assert names(small_trace()) == ["a", "b"]
    assert names(small_trace(slots=[3, None])) == ["b", "a"]


def test_requests_that_tell_all_of_them_are_enough() -> None:
    assert names(small_trace(slots=[1, 0], rows=False)) == ["b", "a"]
    assert names(small_trace(slots=[0, 1], rows=False)) == ["a", "b"]

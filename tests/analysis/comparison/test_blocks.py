"""Cutting the events into blocks of steps changes nothing, and unfinished recordings are walked like any other."""

import polars as pl
import pytest

from simtool.analysis.critical_path.critical_path import critical_path
from simtool.analysis.critical_path.pieces import Pieces, make_pieces
from simtool.trace.trace import open_trace
from simtool.trace.writer import TraceWriter
from tests.analysis.critical_path.test_path_arrays import check
from tests.replay.synthetic import STREAMS
from tests.synthetic import EXECUTORS, make_trace


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    trace = make_trace(tmp_path_factory.mktemp("toy") / "toy", "lag")
    outlasting = pl.when((pl.col("lane") != "host") & (pl.col("flow") % 7 == 0)).then(9_000_000).otherwise(0)
    return trace.table("steps"), trace.table("events").with_columns(pl.col("end_ns") + outlasting)


@pytest.mark.parametrize("size", [1, 50, 333])
def test_blocks_of_any_size_give_the_same_path(monkeypatch, tables, size):
    """Also where device work is carried from one block into those behind it."""
    steps, events = tables
    whole, cut = critical_path(steps, events, STREAMS), Pieces.blocks
    monkeypatch.setattr(Pieces, "blocks", lambda pieces: cut(pieces, size))
    assert len(list(make_pieces(steps, events).blocks())) > 1
    found = critical_path(steps, events, STREAMS)
    assert found.segments.equals(whole.segments)
    assert found.ops.equals(whole.ops)


@pytest.mark.parametrize("size", [1, 100])
def test_blocks_hold_every_step_and_piece_once(tables, size):
    pieces = make_pieces(*tables)
    blocks = list(pieces.blocks(size))
    steps = [block.first_step + step for block in blocks for step in range(len(block.starts_ns))]
    assert steps == list(range(tables[0].height))
    assert [flow for block in blocks for flow in block.flow.tolist()] == pieces.flow.tolist()
    assert all(len(block.step) <= size or len(block.starts_ns) == 1 for block in blocks)


def test_the_order_of_rows_does_not_matter(tables):
    steps, events = tables
    found = critical_path(steps.reverse(), events.sample(fraction=1, shuffle=True, seed=3), STREAMS)
    assert found.ops.equals(critical_path(steps, events, STREAMS).ops)


def test_a_trace_that_was_never_closed(tmp_path):
    trace = make_trace(tmp_path / "whole", "lag-overlap")
    writer = TraceWriter(tmp_path / "killed", trace.manifest)
    for name in ("steps", "events"):
        writer.append(name, trace.table(name).filter(pl.col("step") < 9).to_dict(as_series=False))
        writer.flush()
    killed = open_trace(tmp_path / "killed")
    assert not killed.manifest.complete
    check(killed.table("steps"), killed.table("events"), EXECUTORS)


def test_steps_without_events_and_events_without_steps(tables):
    """A run cut off anywhere: each step still sums to its length."""
    steps, events = tables
    cut = events.filter(~pl.col("step").is_in([2, 5]) & ((pl.col("lane") == "host") | (pl.col("step") != 7)))
    kept = steps.filter(pl.col("step") % 4 != 0)
    check(kept, cut, EXECUTORS)
    lengths = (
        critical_path(kept, cut, EXECUTORS).segments.group_by("step").agg((pl.col("end_ns") - pl.col("start_ns")).sum())
    )
    assert dict(lengths.rows()) == dict(kept.select("step", pl.col("end_ns") - pl.col("start_ns")).rows())

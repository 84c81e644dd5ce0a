"""What is read a stretch at a time is what is read whole: rows, findings and figures."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from simtool.analysis.comparison.runs import content_of, run_of
from simtool.analysis.critical_path.totals import typical_totals
from simtool.analysis.metrics import summarise_trace
from simtool.calibrate.fit import calibrate
from simtool.trace import table_file
from simtool.trace.checks.check import check_trace
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace, open_trace

LAG = Path(__file__).parents[2] / "traces" / "sl7-lag"

BREAKS = {
    "events": pl.col("start_ns") - pl.when(pl.col("flow") % 97 == 0).then(40_000_000).otherwise(0),
    "rows": pl.when(pl.col("step") % 31 == 5).then(0).otherwise(pl.col("accepted")).alias("accepted"),
    "outcomes": pl.when(pl.col("anchor_position") % 13 == 0).then(9).otherwise(pl.col("match_run")).alias("match_run"),
    "steps": pl.col("end_ns") + pl.when(pl.col("step") % 10 == 3).then(50_000_000).otherwise(0),
}


def _held(name: str = LAG.name) -> Trace:
    """A shipped trace in memory."""
    trace = open_trace(LAG.with_name(name))
    return Trace(trace.path, trace.manifest, {name: trace.table(name) for name in TABLES})


def _broken(table: str) -> Trace:
    whole = _held()
    tables = {name: whole.table(name) for name in TABLES}
    return Trace(whole.path, whole.manifest, tables | {table: tables[table].with_columns(BREAKS[table])})


@pytest.mark.parametrize("table", [None, *BREAKS])
def test_findings_do_not_depend_on_how_it_is_cut(table: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = _held() if table is None else _broken(table)
    whole = check_trace(trace)
    assert table is None or whole, "broken, and nothing was said"
    monkeypatch.setattr(table_file, "STRETCH_ROWS", 50)
    assert len([*trace.stretches("events")]) > 5
    assert check_trace(trace) == whole


def test_figures_do_not_depend_on_how_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, cut = _held(), _held()
    expected = (summarise_trace(whole), run_of(whole).whole, typical_totals(whole))
    monkeypatch.setattr(table_file, "STRETCH_ROWS", 50)
    assert summarise_trace(cut) == expected[0]
    one, other = run_of(cut).whole, expected[1]
    assert one is not None
    assert other is not None
    assert content_of(cut) == content_of(whole)
    totals = typical_totals(cut)
    assert totals.steps == expected[2].steps
    assert_frame_equal(totals.parts, expected[2].parts)
    assert_frame_equal(totals.ops, expected[2].ops)


def test_costs_do_not_depend_on_how_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = _held(), _held("sl7-this-step")
    expected = calibrate([one, other], created="2026-01-01", refits=2)
    monkeypatch.setattr(table_file, "STRETCH_ROWS", 50)
    assert len([*one.stretches("events")]) > 5
    assert calibrate([one, other], created="2026-01-01", refits=2) == expected


@pytest.mark.parametrize("backwards", [False, True])
def test_a_file_gives_the_same_in_every_way(backwards: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in another order than the key's are sorted before they are handed out."""
    monkeypatch.setattr(table_file, "STRETCH_ROWS", 100)
    source = open_trace(LAG)
    manifest = dataclasses.replace(source.manifest, tables=None)
    for name in TABLES:
        rows = source.table(name)
        rows = rows.reverse() if backwards else rows
        rows.write_parquet(tmp_path / f"{name}.parquet", row_group_size=40)
    stored = Trace(tmp_path, manifest)
    for name, table in TABLES.items():
        expected = source.table(name)
        parts = [*stored.stretches(name)]
        assert_frame_equal(pl.concat(parts), expected)
        assert all(a[table.key[0]][-1] != b[table.key[0]][0] for a, b in pairwise(parts)), "a key was parted"
        names = [column.name for column in table.columns[1:3]]
        assert_frame_equal(stored.columns(name, *names), expected.select(names))
        assert_frame_equal(pl.concat(stored.stretches(name, *names)), expected.select(names))
        assert stored.height(name) == expected.height
    assert_frame_equal(stored.of_steps("events", [3, 7]), source.table("events").filter(pl.col("step").is_in([3, 7])))
    assert (stored.file_of("rows") is None) == backwards

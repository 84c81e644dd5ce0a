"""Tables at every width: no number is ever broken, nothing is lost, and a wide terminal gets the table as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simtool.cli.main import run
from simtool.cli.shared import console
from simtool.report.terminal.tables import TextTable, laid_out, table
from tests.synthetic import make_trace

ARMS = ("static", "this-step", "lag", "lag-overlap", "lag-overlap-index")
MEASURES = ("steady tok/s", "whole-run tok/s", "TPOT mean", "acceptance rate", "step", "device idle/step")
FEW_ROWS = table(
    "a run",
    ("bundle", "placement", *MEASURES),
    [("sl7-lag", arm, "1,120", "969", "7.57 ms", "0.201", "15.8 ms ± 3.1 us", "-1.5 % to +2.5 %") for arm in ARMS],
    numbers_from=2,
)
MANY_ROWS = table(
    "", ("placement", "concurrency", *MEASURES[:3]), [(arm, "8", "1", "2", "3") for arm in ARMS * 9], numbers_from=2
)
PROSE = table(
    "",
    ("order", "tok/s", "why"),
    [("best", "1,234", "off the path: fill_varlen (host) 123 us, decide (host) 23.4 us; onto it: draft 1.2 ms")],
)
TABLES = {"few rows": FEW_ROWS, "many rows": MANY_ROWS, "prose": PROSE, "no rows": table("", ("a b", "c"), [])}


def words(text: TextTable) -> set[str]:
    return {word for cells in (text.columns, *text.rows) for cell in cells for word in cell.split()}


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("name", TABLES)
def test_laid_out_it_fits_and_holds_everything(name: str, width: int) -> None:
    parts = laid_out(TABLES[name], width)
    assert max(part.width for part in parts) <= width
    assert set().union(*map(words, parts)) == words(TABLES[name])


@pytest.mark.parametrize("width", [10, 40, 80])
def test_a_number_keeps_its_sign_its_unit_and_its_interval(width: int) -> None:
    for whole in (FEW_ROWS, MANY_ROWS):
        cells = {cell for part in laid_out(whole, width) for row in part.rows for cell in row}
        assert {cell for row in whole.rows for cell in row[whole.numbers_from :]} <= cells
    prose = "\n".join(part.rows[-1][-1] for part in laid_out(PROSE, width))
    assert all(number in prose for number in ("123 us", "23.4 us", "1.2 ms"))


def test_a_wide_terminal_gets_the_table_as_it_is_and_a_narrow_one_the_rows_as_columns() -> None:
    assert laid_out(FEW_ROWS, 140) == [FEW_ROWS]
    first, second = laid_out(FEW_ROWS, 80)
    assert first.columns == ("placement", *ARMS[:3])
    assert second.columns == ("placement", *ARMS[3:])
    assert [row[0] for row in first.rows] == ["bundle", *MEASURES]


def test_many_rows_keep_their_names_in_every_part() -> None:
    parts = laid_out(MANY_ROWS, 44)
    assert len(parts) > 1
    assert all(part.columns[0] == "placement" and len(part.rows) == len(MANY_ROWS.rows) for part in parts)


def test_show_reads_the_width_and_prints_the_title_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    console.show(table("a title that is longer than its table", ("a", "b"), [("x", "1.5 ms"), ("[y]", "12 us")]))
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "a title that is longer than its table"
    assert [line.split() for line in printed[3:5]] == [["x", "1.5", "ms"], ["[y]", "12", "us"]]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_commands_print_no_broken_number(
    columns: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    paths = [str(make_trace(tmp_path / name, name).path) for name in ("static", "lag", "lag-overlap")]
    assert run(["compare", *paths]) == 1
    assert run(["inspect", *paths]) == 0
    assert run(["placements", "lag-overlap"]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, (line for line in printed.splitlines() if "  " in line.strip()))) <= max(columns, 76)
    assert not re.search(r"\d\.$", printed, re.MULTILINE)

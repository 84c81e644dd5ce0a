"""A trace whose files or manifest were changed, cut, lost or led astray is told of, and not followed outside."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from simtool.cli.main import run
from simtool.errors import TraceError
from simtool.trace import parquet_size
from simtool.trace.checks.check import check_stored
from simtool.trace.trace import open_trace
from tests.reliability.scenarios import small_trace


def _rewritten(table: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        file = folder / f"{table}.parquet"
        change(pl.read_parquet(file)).write_parquet(file)

    return act


def _claiming(**changes: Any) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        file = folder / "manifest.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return act


def _lag_3(folder: Path) -> None:
    placement = json.loads((folder / "manifest.json").read_text())["placement"]
    _claiming(placement={**placement, "lag_steps": 3})(folder)


def _linked(folder: Path) -> None:
    (folder / "outcomes.parquet").rename(folder.parent / "elsewhere")
    (folder / "outcomes.parquet").symlink_to(folder.parent / "elsewhere")


def _piped(folder: Path) -> None:
    (folder / "events.parquet").unlink()
    os.mkfifo(folder / "events.parquet")


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "lost table": (lambda folder: (folder / "events.parquet").unlink(), "events: its file is lost"),
    "cut table": (
        _rewritten("outcomes", lambda frame: frame.filter(pl.col("source") == "visited")),
        "outcomes: is not the file that the manifest tells of (7 rows)",
    ),
    "arrival moved by less than a step": (
        _rewritten("requests", lambda frame: frame.with_columns(pl.col("arrival_ns") - 3)),
        "requests: is not the file that the manifest tells of",
    ),
    "other concurrency": (_claiming(concurrency=1), "more sequences than the manifest's concurrency, 1"),
    "other lag": (_lag_3, "fresh does not follow from the manifest's lag_steps, 3"),
    "other width": (_claiming(block_width=5), "block_width is 5; a block of SL 2"),
    "no width": (_claiming(block_width=-1), "block_width is -1; expected 0 to"),
    "linked table": (_linked, "outcomes: its file is lost"),
    "piped table": (_piped, "events: its file is lost"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_trace_is_told_of(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_trace(tmp_path / "run")
    assert run(["inspect", str(tmp_path / "run")]) == 0
    change, message = CHANGES[name]
    change(tmp_path / "run")
    assert run(["inspect", str(tmp_path / "run")]) in (1, 2)
    told = capsys.readouterr()
    assert message in " ".join((told.out + told.err).split())
    assert run(["export", str(tmp_path / "run"), "--out", str(tmp_path / "x.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "x.json").exists()


def test_a_trace_of_before_has_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_trace(tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    del manifest["tables"]
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    assert run(["inspect", str(tmp_path / "run")]) == 0
    assert "note: manifest: keeps no row counts and hashes" in capsys.readouterr().out


def test_a_linked_manifest_is_refused(tmp_path: Path) -> None:
    small_trace(tmp_path / "run")
    (tmp_path / "run" / "manifest.json").rename(tmp_path / "m.json")
    (tmp_path / "run" / "manifest.json").symlink_to(tmp_path / "m.json")
    with pytest.raises(TraceError, match="is a link"):
        open_trace(tmp_path / "run")


def test_what_unfolds_is_counted_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = pl.DataFrame({"step": pl.zeros(300_000, dtype=pl.Int32, eager=True), "ids": [[1, 2]] * 300_000})
    many.write_parquet(tmp_path / "many.parquet")
    assert (tmp_path / "many.parquet").stat().st_size < 20_000
    groups = parquet_size.read_row_groups(tmp_path / "many.parquet")
    assert (sum(each.values for each in groups), sum(each.rows for each in groups)) == (900_000, 300_000)
    monkeypatch.setattr(parquet_size, "MOST_VALUES", 1_000)
    with pytest.raises(TraceError, match=r"unfolds to \d{3},\d{3} values, and at most 1,000 are read"):
        parquet_size.read_row_groups(tmp_path / "many.parquet")


def test_a_changed_bit_is_a_line(tmp_path: Path) -> None:
    """Whatever bit of a table is wrong, down to its footer."""
    file = small_trace(tmp_path / "run").path / "events.parquet"
    whole = file.read_bytes()
    for at in range(0, len(whole), 7):
        data = bytearray(whole)
        data[at] ^= 1 << (at % 8)
        file.write_bytes(data)
        try:
            told = [str(finding) for finding in check_stored(open_trace(tmp_path / "run"))]
        except TraceError as error:
            told = [str(error)]
        assert told, f"byte {at}: nothing was said"


_NESTED = b"\x19" * 60 + (60).to_bytes(4, "little")


@pytest.mark.parametrize("data", [b"", b"PAR1", b"\xff" * 64 + b"PAR1", _NESTED + b"PAR1"])
def test_what_has_no_footer_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(data)
    with pytest.raises(TraceError, match="cannot be read as Parquet"):
        parquet_size.read_row_groups(tmp_path / "x.parquet")

"""Every trace that ships says of each of its tables how many rows it has and what they hash to."""

from __future__ import annotations

import hashlib
from pathlib import Path

import polars as pl
import pytest

from simtool.trace.trace import open_trace

_SHIPPED = sorted(path.parent for path in (Path(__file__).parents[2] / "traces").glob("*/manifest.json"))


def test_traces_ship() -> None:
    assert _SHIPPED


@pytest.mark.parametrize("folder", _SHIPPED, ids=lambda folder: folder.name)
def test_rows_and_hashes_of_all_tables(folder: Path) -> None:
    told = {name: (table.rows, table.sha256) for name, table in open_trace(folder).manifest.tables.items()}
    assert told == {
        path.stem: (
            pl.scan_parquet(path).select(pl.len()).collect().item(),
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in folder.glob("*.parquet")
    }

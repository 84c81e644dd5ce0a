"""Tables that are wrong in one column, drawn from the schema's own registry, are refused or told of, never a crash."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simtool.errors import SimtoolError
from simtool.trace.checks.check import check_stored, check_trace
from simtool.trace.schema import TABLES
from simtool.trace.trace import open_trace
from tests.reliability.scenarios import small_trace

_COLUMNS = [(table.name, column.name) for table in TABLES.values() for column in table.columns]
_KINDS: tuple[Any, ...] = (pl.Int8, pl.Int64, pl.UInt64, pl.Float64, pl.String, pl.Boolean, pl.List(pl.Int32), pl.Null)
_NUMBERS = (0, -1, 1, 2**31 - 1, -(2**31), 10**12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_trace(tmp_path_factory.mktemp("drawn") / "run").path


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    place=st.sampled_from(_COLUMNS),
    how=st.sampled_from(("kind", "null", "missing", "extra", "repeated rows", "reversed", "number", "empty")),
    kind=st.sampled_from(_KINDS),
    number=st.sampled_from(_NUMBERS),
)
def test_one_column_is_wrong(place: tuple[str, str], how: str, kind: Any, number: int, folder: Path) -> None:
    table, column = place
    file = folder / f"{table}.parquet"
    whole = file.read_bytes()
    frame = pl.read_parquet(file)
    changed = _changed(frame, column, how, kind, number)
    changed.write_parquet(file)
    try:
        told = [str(finding) for finding in check_stored(open_trace(folder))]
        unhashed = open_trace(folder)
        told += map(str, check_trace(replace(unhashed, manifest=replace(unhashed.manifest, tables=None))))
    except SimtoolError as error:
        told = [str(error)]
    finally:
        file.write_bytes(whole)
    assert told or changed.equals(frame), "a changed table, and nothing was said"
    assert not any("\n" in line for line in told)


def _changed(frame: pl.DataFrame, column: str, how: str, kind: Any, number: int) -> pl.DataFrame:
    dtype = frame.schema[column]
    match how:
        case "kind":
            return frame.with_columns(pl.lit(None, kind).alias(column))
        case "null":
            return frame.with_columns(pl.lit(None, dtype).alias(column))
        case "missing":
            return frame.drop(column)
        case "extra":
            return frame.with_columns(pl.lit(number).alias("no_such_column"))
        case "repeated rows":
            return pl.concat([frame, frame])
        case "reversed":
            return frame.with_columns(pl.col(column).reverse())
        case "empty":
            return frame.head(0)
        case _:
            value = pl.lit(number).cast(dtype, strict=False) if dtype.is_numeric() else pl.lit(None, dtype)
            return frame.with_columns(value.alias(column))

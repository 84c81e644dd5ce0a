from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from simtool.errors import TraceError
from simtool.trace.checks.check import Severity, check_trace
from simtool.trace.frames import make_frame
from simtool.trace.manifest import Manifest
from simtool.trace.schema import TABLES
from simtool.trace.trace import open_trace, replace_table, write_trace
from simtool.trace.writer import TraceWriter
from tests.trace.small import small_manifest, small_tables

_SHIPPED = Path(__file__).parents[2] / "traces" / "sl7-lag"


def test_a_recording_comes_back_typed_sorted_and_complete(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "run"
    with TraceWriter(path, small_manifest()) as writer:
        for name, columns in small_tables().items():
            writer.append(name, {column: values[::-1] for column, values in columns.items()})
            writer.flush()
        writer.close(details={"idle_share": 0.9})
    trace = open_trace(path)
    assert trace.manifest.complete
    assert trace.manifest.details == {"idle_share": 0.9}
    assert trace.placement.name == "lag"
    for name, columns in small_tables().items():
        frame = trace.table(name)
        assert frame.schema == TABLES[name].polars_schema
        assert frame.equals(make_frame(TABLES[name], columns).sort(TABLES[name].key))
    assert sorted(file.name for file in path.iterdir()) == sorted(
        ["manifest.json", *(f"{name}.parquet" for name in TABLES)]
    )


def test_files_from_before_a_nullable_column_read_as_nulls(tmp_path: Path) -> None:
    """A shipped trace, without the columns for logits gaps: as those were that were recorded before them."""
    path = shutil.copytree(_SHIPPED, tmp_path / "old")
    for name, column in (("requests", "output_margin"), ("outcomes", "draft_margin")):
        file = path / f"{name}.parquet"
        pl.read_parquet(file).drop(column, strict=False).write_parquet(file)
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({key: manifest[key] for key in manifest if key != "tables"}))
    old = open_trace(path)
    for name, column in (("requests", "output_margin"), ("outcomes", "draft_margin")):
        frame = old.table(name)
        assert frame.schema == TABLES[name].polars_schema
        assert frame[column].null_count() == frame.height > 0
    assert [finding for finding in check_trace(old) if finding.severity == Severity.ERROR] == []


def test_only_flushed_rows_survive_an_exception(tmp_path: Path) -> None:
    columns = small_tables()["steps"]

    def record() -> None:
        with TraceWriter(tmp_path / "run", small_manifest()) as writer:
            writer.append("steps", columns)
            writer.flush()
            writer.append("steps", columns)
            raise ZeroDivisionError("the engine fell over")

    with pytest.raises(ZeroDivisionError):
        record()
    trace = open_trace(tmp_path / "run")
    assert not trace.manifest.complete
    assert trace.manifest.warnings == ["stopped by ZeroDivisionError: the engine fell over"]
    assert trace.table("steps")["step"].to_list() == [0, 1, 2, 3]


def test_nullable_columns_may_come_and_go_between_appends(tmp_path: Path) -> None:
    steps = small_tables()["steps"]
    with TraceWriter(tmp_path / "run", small_manifest()) as writer:
        writer.append("steps", steps)
        writer.append("steps", {**steps, "step": [4, 5, 6, 7], "graph_bucket": [8, 8, 8, 8]})
        writer.append("steps", {**steps, "step": [8, 9, 10, 11]})
    assert open_trace(tmp_path / "run").table("steps")["graph_bucket"].to_list() == [None] * 4 + [8] * 4 + [None] * 4


def test_a_trace_without_a_table_reads_it_as_empty(tmp_path: Path) -> None:
    frame = make_frame(TABLES["steps"], small_tables()["steps"])
    trace = write_trace(tmp_path / "run", small_manifest(), {"steps": frame})
    assert trace.manifest.complete
    assert trace.table("outcomes").is_empty()
    assert trace.table("outcomes").schema == TABLES["outcomes"].polars_schema


@pytest.mark.parametrize(
    ("table", "columns", "message"),
    [
        ("stepz", {"step": [1]}, "unknown table 'stepz'"),
        ("steps", {"step": [1], "kind": []}, "unequal length"),
    ],
)
def test_append_refuses(tmp_path: Path, table: str, columns: dict[str, list[int]], message: str) -> None:
    writer = TraceWriter(tmp_path / "run", small_manifest())
    with pytest.raises(TraceError, match=message):
        writer.append(table, columns)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mood": ["good"] * 4}, "unknown column 'mood'"),
        ({"pruned": [True, False, None, True]}, "'pruned' has 1 nulls"),
        ({"batch": [1.5] * 4}, r"steps\.batch: values do not fit Int32"),
        ({"batch": [2**40] * 4}, r"steps\.batch: values do not fit Int32"),
    ],
)
def test_flush_names_the_column_that_does_not_fit(
    tmp_path: Path, change: dict[str, list[object]], message: str
) -> None:
    writer = TraceWriter(tmp_path / "run", small_manifest())
    writer.append("steps", small_tables()["steps"] | change)
    with pytest.raises(TraceError, match=message):
        writer.flush()


def test_a_missing_required_column_is_named(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "run", small_manifest())
    writer.append("steps", {"step": [1]})
    with pytest.raises(TraceError, match="no column 'kind'"):
        writer.flush()


def test_overwriting_needs_force_and_spares_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "run"
    frame = make_frame(TABLES["steps"], small_tables()["steps"])
    write_trace(path, small_manifest(), {"steps": frame})
    (path / "notes.txt").write_text("mine")
    with pytest.raises(TraceError, match="--force"):
        write_trace(path, small_manifest(), {})
    assert open_trace(path).table("steps").height == 4
    assert write_trace(path, small_manifest(), {}, force=True).table("steps").is_empty()
    assert (path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_or_file_that_is_no_trace_is_never_touched(tmp_path: Path, force: bool) -> None:
    folder, file, foreign = tmp_path / "thesis", tmp_path / "file", tmp_path / "foreign"
    folder.mkdir()
    (folder / "chapter.txt").write_text("years of work")
    file.write_text("a file")
    foreign.mkdir()
    (foreign / "manifest.json").write_text('{"name": "a web page"}')
    for path in (folder, file, foreign):
        with pytest.raises(TraceError, match=path.name):
            TraceWriter(path, small_manifest(), force=force)
    assert (folder / "chapter.txt").read_text() == "years of work"
    assert file.read_text() == "a file"
    assert (foreign / "manifest.json").read_text() == '{"name": "a web page"}'


def test_opening_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such trace"):
        open_trace(tmp_path / "nowhere")
    with pytest.raises(TraceError, match="not a trace"):
        open_trace(tmp_path)
    good = small_manifest().to_dict()
    for change, message in (
        ({"schema_version": 99}, "schema version 99.*upgrade"),
        ({"sl": "seven"}, "sl is 'seven'; expected a whole number"),
        ({"sl": True}, "sl is True"),
        ({"origin": "dreamt"}, "origin is 'dreamt'"),
        ({"colour": "red"}, "unknown key 'colour'"),
    ):
        (tmp_path / "manifest.json").write_text(json.dumps(good | change))
        with pytest.raises(TraceError, match=message):
            open_trace(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({k: v for k, v in good.items() if k != "clock"}))
    with pytest.raises(TraceError, match="no key 'clock'"):
        open_trace(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(TraceError, match="not JSON"):
        open_trace(tmp_path)


def test_a_foreign_or_damaged_table_is_refused(tmp_path: Path) -> None:
    frame = make_frame(TABLES["steps"], small_tables()["steps"])
    write_trace(tmp_path / "run", small_manifest(), {})
    file = tmp_path / "run" / "steps.parquet"
    for wrong, message in (
        (frame.drop("pruned"), "no column 'pruned'"),
        (frame.with_columns(mood=pl.lit(1)), "unknown column 'mood'"),
        (frame.cast({"start_ns": pl.Float64}), "'start_ns' is Float64; expected Int64"),
    ):
        wrong.write_parquet(file)
        with pytest.raises(TraceError, match=message):
            open_trace(tmp_path / "run").table("steps")
    file.write_bytes(b"not parquet at all")
    with pytest.raises(TraceError, match="damaged"):
        open_trace(tmp_path / "run").table("steps")


def test_an_import_has_no_placement(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "run", small_manifest(origin="imported", placement=None), {})
    with pytest.raises(TraceError, match="no placement"):
        _ = trace.placement


def test_manifest_round_trips_and_refuses_what_json_cannot_hold(tmp_path: Path) -> None:
    manifest = small_manifest(details={"nested": [1, {"deep": None}]})
    assert Manifest.from_dict(json.loads(json.dumps(manifest.to_dict()))) == manifest
    with pytest.raises(TraceError, match="not plain JSON"):
        TraceWriter(tmp_path / "run", small_manifest(details={"nan": float("nan")}))


def test_one_table_of_a_complete_trace_can_be_replaced(tmp_path: Path) -> None:
    frames = {name: make_frame(TABLES[name], columns) for name, columns in small_tables().items()}
    trace = write_trace(tmp_path / "run", small_manifest(), frames)
    replaced = replace_table(trace, "outcomes", frames["outcomes"].tail(2))
    assert replaced.table("outcomes").height == 2
    assert replaced.table("rows").equals(trace.table("rows"))
    with pytest.raises(TraceError, match="unknown column"):
        replace_table(trace, "outcomes", frames["outcomes"].with_columns(mood=pl.lit(1)))
    unfinished = TraceWriter(tmp_path / "unfinished", small_manifest())
    with pytest.raises(TraceError, match="is incomplete"):
        replace_table(open_trace(unfinished.path), "outcomes", frames["outcomes"])

"""No command makes figures from a trace that contradicts itself; from a killed writer's or a replay it does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from simtool.cli.main import run
from simtool.replay.replay import Replay, replay
from simtool.replay.scenario import Scenario
from simtool.step.placement import BUILT_IN
from simtool.trace.schema import TABLES
from simtool.trace.trace import open_trace, replace_table
from simtool.trace.writer import TraceWriter
from tests.replay.synthetic import constant_costs, profile_of, random_work, save_as_live, source_trace


def _replayed(folder: Path, seed: int) -> Replay:
    source = source_trace(folder / f"source-{seed}", random_work(seed, 4, 6, tokens=12))
    return replay(source, profile_of(constant_costs(pre=1_000, duration=5_000)), Scenario(BUILT_IN["lag"], 2))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sound recording `run`, and `broken`, which has the rows of another."""
    monkeypatch.chdir(tmp_path)
    save_as_live(_replayed(tmp_path, 3), tmp_path / "run")
    save_as_live(_replayed(tmp_path, 4), tmp_path / "other")
    shutil.copytree("run", "broken")
    shutil.copy("other/rows.parquet", "broken/rows.parquet")
    assert run(["calibrate", "run", "--out", "p.json"]) == 0
    return tmp_path


COMMANDS = [
    ("replay", "broken", "--policy", "static"),
    ("replay", "broken", "--policy", "static", "--profile", "p.json"),
    ("calibrate", "run", "broken", "--out", "x.json"),
    ("compare", "run", "broken"),
    ("report", "broken", "--out", "x.html"),
    ("sweep", "run", "broken", "--out", "x.csv"),
    ("search", "broken"),
    ("tornado", "broken"),
    ("break-even", "broken"),
    ("lags", "broken"),
    ("answers", "broken", "--out", "x.md", "--profiles", "x"),
    ("export", "broken", "--out", "x.json"),
    ("fill", "broken"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_broken_trace_is_refused(command: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(list(command)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    *_, error = printed.err.splitlines()
    assert error.startswith("simtool: broken: contradicts itself, so no figure from it would hold: ")
    assert "first: " in error
    assert "`simtool inspect broken`" in error
    assert not list(folder.glob("x*"))


@pytest.mark.parametrize(
    ("table", "change", "message"),
    [
        (
            "events",
            pl.when(pl.col("lane") == "host").then(pl.col("end_ns") + 2_000_000).otherwise("end_ns").alias("end_ns"),
            "events: starts before the work before it on its lane ends",
        ),
        (
            "rows",
            pl.col("confidence").list.eval(pl.element() + 1),
            "rows: confidence has a value that is no probability",
        ),
        (
            "requests",
            pl.col("^.*_ns$") + 140_000_000_000,
            "requests: first_token_ns is not when a prefill step had read its tokens",
        ),
    ],
)
def test_the_first_error_is_named(
    table: str, change: pl.Expr, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = open_trace(Path("run"))
    replace_table(trace, table, trace.table(table).with_columns(change))
    assert run(["replay", "run", "--policy", "lag", "--profile", "p.json"]) == 2
    assert message in capsys.readouterr().err
    assert run(["inspect", "run"]) == 1


def test_a_killed_writers_trace_is_used(folder: Path) -> None:
    sound = open_trace(Path("run"))
    writer = TraceWriter(Path("killed"), sound.manifest)
    for name in TABLES:
        frame = sound.table(name)
        if name == "requests":
            frame = frame.head(frame.height - 1)
        writer.append(name, frame.to_dict(as_series=False))
    writer.flush()
    writer.abandon("stopped by Ctrl-C")
    for command in (
        ["replay", "killed", "--policy", "lag", "--profile", "p.json"],
        ["report", "killed"],
        ["export", "killed"],
        ["calibrate", "killed"],
    ):
        assert run(command) == 0


def test_a_replay_is_compared_and_replayed_but_not_calibrated(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "run", "--policy", "static", "--profile", "p.json", "--out", "o"]) == 0
    replayed = "o/run-static"
    assert run(["compare", "run", replayed, "--json"]) == 1  # a live run beside a replay: nothing to compare
    assert run(["replay", replayed, "--policy", "lag", "--profile", "p.json"]) == 0
    Path(replayed, "rows.parquet").write_bytes(b"")  # the manifest tells, before minutes of reading a large one
    capsys.readouterr()
    for command in (["calibrate", replayed], ["replay", replayed, "--policy", "lag"], ["lags", replayed]):
        assert run(command) == 2
        error = capsys.readouterr().err
        assert "run-static: is replayed, so its times come from the profile 'p'" in error
        assert error.count("\n") == 1
    assert not list(folder.glob("o/*.json"))


def test_an_import_is_reported_and_exported(folder: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "ts": 0, "dur": 1, "pid": 0, "tid": 7}
    Path("trace.json").write_text(json.dumps([kernel]))
    assert run(["import", "trace.json"]) == 0
    assert run(["export", "trace-imported"]) == 0
    assert run(["report", "trace-imported"]) == 0

"""An output never takes the place of what its command reads, of another output or of a trace's file, even by force."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from simtool.cli.main import run
from tests.reliability.hostile.inputs import make_inputs

_APART = {
    "two outputs": (["sweep", "toy", "--out", "s.csv", "--figure", "./s.csv"], "s.csv is given for two outputs"),
    "two outputs of answers": (["answers", "toy", "--out", "a.md", "--page", "a.md"], "a.md is given for two outputs"),
    "a profile": (["sweep", "toy", "--profile", "p.json", "--out", "./p.json"], "p.json is what this command reads"),
    "a placement": (
        ["tornado", "toy", "--policy", "mine.toml", "--figure", "mine.toml"],
        "mine.toml is what this command reads",
    ),
    "a trace": (["calibrate", "toy", "--out", "toy"], "toy is what this command reads"),
    "by a link": (["report", "toy", "--out", "link"], "link is what this command reads"),
    "a manifest": (["export", "toy", "--out", "toy2/manifest.json"], "is a file of the trace toy2"),
    "a table": (["sweep", "toy", "--out", "toy/rows.parquet"], "is a file of the trace toy"),
    "a table that is not there": (["sweep", "toy", "--out", "bare/rows.parquet"], "is a file of the trace bare"),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("apart") / "inputs"
    make_inputs(folder, live=False)
    (folder / "mine.toml").write_text("not read")
    (folder / "link").symlink_to("toy")
    (folder / "bare").mkdir()
    (folder / "bare" / "manifest.json").write_bytes((folder / "toy" / "manifest.json").read_bytes())
    return folder


def _all_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", _APART)
def test_nothing_is_written_there(
    name: str, inputs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(inputs)
    before = _all_of(inputs)
    command, message = _APART[name]
    assert run([*command, "--force"]) == 2
    assert message in capsys.readouterr().err
    assert _all_of(inputs) == before


def test_a_device_needs_no_force(inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(inputs)
    assert run(["report", "toy", "--out", os.devnull]) == 0


def test_a_line_of_a_name_that_holds_two_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", "two\nlines"]) == 2
    assert capsys.readouterr().err.startswith("simtool: two\\nlines: no such trace")

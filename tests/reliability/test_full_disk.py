"""A disk that is really full: every command that writes says so in one line, and what was there stays as it was."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from simtool.cli.main import run
from tests.engine import golden
from tests.reliability.hostile.inputs import make_inputs
from tests.reliability.killing import leftovers

_PAIR = golden.FOLDER / "dspark_b7"
_MODELS = ["--target", str(_PAIR / "target"), "--draft", str(_PAIR / "draft")]
_COSTS = ["--jobs", "1"]
_SMALL, _FEW = ["--lag", "none", "--top", "1", "--seeds", "0"], ["--num-requests", "8"]
_ONCE = ["--concurrency", "1,2", "--waves", "1", "--seeds", "2"]
_FIGURES = Path(__file__).parents[2] / "models" / "profiles" / "xllm-2280-like.toml"
#: Command line, then the name of its output on the full disk (a sweep keeps its points beside it).
_WRITERS: dict[str, tuple[list[str], str]] = {
    "calibrate": (["calibrate", "toy", "--out", "disk/c.json"], "c.json"),
    "sweep": (["sweep", "toy", *_COSTS, "--policy", "static", "--out", "disk/s.csv"], ".s.csv"),
    "sweep's figure": (["sweep", "toy", *_COSTS, "--out", "s.csv", "--figure", "disk/f.html"], "f.html"),
    "tornado": (["tornado", "toy", "--policy", "lag", *_COSTS, "--figure", "disk/f.html"], "f.html"),
    "replay": (["replay", "toy", "--policy", "static", "--out", "disk/r"], "r"),
    "report": (["report", "toy", "toy2", "--out", "disk/x.html"], "x.html"),
    "export": (["export", "toy", "--out", "disk/x.json"], "x.json"),
    "import": (["import", "k.json", "--out", "disk/i"], "i"),
    "search": (["search", "toy", *_COSTS, *_SMALL, "--save", "disk/best"], "best"),
    "profile": (["profile", "from-toml", str(_FIGURES), "--out", "disk/p.json"], "p.json"),
    "synth": (["synth", "--profile", "p.json", "--acceptance", "0.8,0.7", *_FEW, "--out", "disk/s"], "s"),
    "answers": (["answers", "toy", "toy2", *_COSTS, *_ONCE, "--out", "disk/a.md", "--profiles", "pp"], "a.md"),
    "record": (["record", *_MODELS, "--policy", "static", "--prompt-ids", "prompts.jsonl", "--out", "disk/t"], "t"),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("full") / "inputs"
    make_inputs(folder)
    return folder


@pytest.fixture
def disk(inputs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small disk of its own, mounted where the system lets us."""
    monkeypatch.chdir(inputs)
    place = inputs / "disk"
    place.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody here mount a small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def _fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def _content(path: Path) -> dict[str, str]:
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    return {str(each.relative_to(path)): hashlib.sha256(each.read_bytes()).hexdigest() for each in files}


@pytest.mark.parametrize("name", _WRITERS)
def test_the_old_output_stays_and_the_line_names_the_place(
    name: str, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, output = _WRITERS[name]
    for path in Path().glob("s.csv"):
        path.unlink()
    assert run(command) == 0, capsys.readouterr().err
    place = disk / output.removeprefix(".")
    old = _content(place)
    assert old
    _fill(disk)
    capsys.readouterr()
    again = [*command, "--force"]
    assert run(again) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("simtool: ")]
    (line,) = lines
    assert "No space left on device" in line
    assert f"disk/{output}" in line
    assert _content(place) == old
    assert leftovers(disk) == []
    (disk / "filler").unlink()
    assert run(again) == 0


def test_a_fill_on_a_full_disk_leaves_the_trace(disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["record", *_MODELS, "--policy", "static", "--prompt-ids", "prompts.jsonl", "--out", "disk/t"]) == 0
    old = _content(disk / "t")
    _fill(disk)
    capsys.readouterr()
    assert run(["fill", "disk/t", *_MODELS]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("simtool: ")]
    assert "No space left on device" in line
    assert _content(disk / "t") == old
    assert leftovers(disk) == []


def test_a_validation_on_a_full_disk_leaves_the_older_one(disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arms = ["--policy", "static", "--policy", "lag", "--tokens-only", "--num-prompts", "2"]
    command = ["validate", *_MODELS, *arms, "--prompt-ids", "prompts.jsonl", "--out", "disk/v", "--force"]
    assert run(command) == 0, capsys.readouterr().err
    old = _content(disk / "v")
    _fill(disk)
    capsys.readouterr()
    assert run(command) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("simtool: ")]
    assert "No space left on device" in line
    assert "disk/v" in line
    assert _content(disk / "v") == old
    assert leftovers(disk) == []

"""Outputs that cannot be written are refused before the work; what nobody reads on is written all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from simtool.cli.main import run
from simtool.step.placement import load_placement
from tests.engine import golden
from tests.reliability.hostile.inputs import make_inputs

_PAIR = golden.FOLDER / "dspark_b7"
_LIVE = ("--target", str(_PAIR / "target"), "--draft", str(_PAIR / "draft"), "--prompt-ids", "prompts.jsonl")
_PROCESS = ("--profile", "p.json", "--acceptance", "0.8,0.7")
#: Each with an output below a file.
_WRITERS = {
    "calibrate": ("calibrate", "toy", "--out", "p.json/x.json"),
    "sweep": ("sweep", "toy", "--out", "p.json/x.csv"),
    "sweep's figure": ("sweep", "toy", "--out", "s.csv", "--figure", "p.json/x.html"),
    "search": ("search", "toy", "--save", "p.json/x"),
    "answers": ("answers", "toy", "--out", "p.json/x.md", "--profiles", "p"),
    "answers' page": ("answers", "toy", "--out", "x.md", "--profiles", "p", "--page", "p.json/x.html"),
    "answers' profiles": ("answers", "toy", "--out", "x.md", "--profiles", "p.json/x"),
    "report": ("report", "toy", "--out", "p.json/x.html"),
    "what-if": ("what-if", "toy", "--out", "p.json/x.html"),
    "tornado": ("tornado", "toy", "--figure", "p.json/x.html"),
    "break-even": ("break-even", "toy", "--figure", "p.json/x.html"),
    "replay": ("replay", "toy", "--policy", "lag", "--out", "p.json/x"),
    "export": ("export", "toy", "--out", "p.json/x.json"),
    "import": ("import", "k.json", "--out", "p.json/x"),
    "synth": ("synth", *_PROCESS, "--out", "p.json/x"),
    "first-run": ("first-run", "--device", "cpu", "--out", "p.json/x.json"),
    "record": ("record", *_LIVE, "--policy", "static", "--out", "p.json/x"),
    "validate": ("validate", *_LIVE, "--out", "p.json/x"),
    "validate's report": ("validate", *_LIVE, "--out", "v", "--report", "p.json/x.html"),
    "published": ("validate", "--published", "--out", "p.json/x.md"),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked") / "inputs"
    make_inputs(folder, live=False)
    (folder / "prompts.jsonl").write_text('{"prompt_ids": [1, 2, 3], "max_new_tokens": 6}\n' * 4)
    return folder


@pytest.mark.parametrize("name", _WRITERS)
def test_no_place_is_told_before_the_work(
    name: str, inputs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def begin(*_: object, **__: object) -> None:
        raise AssertionError("the work began")

    monkeypatch.chdir(inputs)
    for place in (
        "simtool.trace.checks.sound.open_sound",
        "simtool.trace.importers.profile.import_profile",
        "simtool.profile.storage.load_profile",
        "simtool.engine.serving.opening.open_session",
        "simtool.engine.first_run.report.first_run",
    ):
        monkeypatch.setattr(place, begin)
    before = sorted(inputs.rglob("*"))
    assert run(list(_WRITERS[name])) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "nothing can be written under" in line
    assert sorted(inputs.rglob("*")) == before


def _with_reader_gone(*command: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run it with its output into a pipe that nobody reads, as behind `| head -0`."""
    child = subprocess.Popen(
        [sys.executable, "-m", "simtool", *command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    with child.stderr:
        errors = child.stderr.read()
    return subprocess.CompletedProcess(command, child.wait(timeout=120), b"", errors)


def test_the_placements_of_a_search_that_nobody_reads_are_saved(inputs: Path) -> None:
    command = ("search", "toy", "--lag", "none", "--top", "2", "--seeds", "0", "--jobs", "1", "--save", "best")
    done = _with_reader_gone(*command, folder=inputs)
    assert b"Traceback" not in done.stderr
    assert len([load_placement(path) for path in (inputs / "best").glob("*.toml")]) == 2


def test_the_report_of_a_validation_that_nobody_reads_is_written(inputs: Path) -> None:
    arms = ("--policy", "static", "--policy", "lag", "--repeats", "2", "--concurrency", "2")
    done = _with_reader_gone("validate", *_LIVE, *arms, "--out", "v", "--report", "v.html", folder=inputs)
    assert b"Traceback" not in done.stderr
    assert (inputs / "v" / "validation.json").is_file()
    assert (inputs / "v.html").read_text().rstrip().endswith("</html>")


@pytest.mark.parametrize(
    ("closed", "status"), [("<&-", 0), (">&-", 0), ("2>&-", 0), ("<&- >&- 2>&-", 0), ("2>/dev/full", 2)]
)
def test_a_stream_that_leads_nowhere(closed: str, status: int, inputs: Path) -> None:
    """What was closed is not missed; a note that a full disk refuses is."""
    command = f"{sys.executable} -m simtool replay toy --policy static --out replayed --force"
    done = subprocess.run(f"{command} {closed}", shell=True, cwd=inputs, capture_output=True, check=False, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (status, False)
    assert (inputs / "replayed" / "toy-static" / "manifest.json").is_file()


def test_what_cannot_be_printed_is_no_success(inputs: Path) -> None:
    """What is printed goes to a disk that is full."""
    command = [sys.executable, "-m", "simtool", "inspect", "toy"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, cwd=inputs, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == [
        "simtool: standard output: No space left on device; make room there, or write elsewhere"
    ]

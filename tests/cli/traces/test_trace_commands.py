"""inspect, import and export, on small traces and traces made here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simtool.cli.main import run
from simtool.trace.frames import make_frame
from simtool.trace.schema import TABLES
from simtool.trace.trace import open_trace, write_trace
from simtool.trace.writer import TraceWriter
from tests.trace.small import small_manifest, small_tables


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    frames = {name: make_frame(TABLES[name], columns) for name, columns in small_tables().items()}
    return write_trace(tmp_path / "run", small_manifest(), frames).path


def _kernel(stream: int, ts: object) -> dict[str, object]:
    return {"ph": "X", "cat": "kernel", "name": "k", "ts": ts, "dur": 1, "pid": 0, "tid": stream}


def test_inspect_shows_and_passes_a_sound_trace(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", "run"]) == 0
    printed = capsys.readouterr().out
    for text in ("live, complete", "dspark, SL 2, concurrency 2, placement lag, seed 0", "target tiny", "400 ns"):
        assert text in printed
    assert "note: outcomes: anchors of 9 have no known outcome" in printed


def test_inspect_tells_the_seed_of_the_prompts(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A trace written before the key was is read too, and says nothing of it."""
    write_trace(Path("seeded"), small_manifest(prompt_seed=1), {})
    assert run(["inspect", "seeded"]) == 0
    assert "seed 0, prompts of seed 1" in capsys.readouterr().out
    manifest = json.loads((trace / "manifest.json").read_text())
    del manifest["prompt_seed"]
    (trace / "manifest.json").write_text(json.dumps(manifest))
    assert run(["inspect", "run"]) == 0
    assert "prompts of seed" not in capsys.readouterr().out


def test_inspect_json_and_findings(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (trace / "rows.parquet").write_bytes(b"lost")
    TraceWriter(trace.with_name("killed"), small_manifest())
    assert run(["inspect", "run", "killed", "--json"]) == 1
    damaged, killed = json.loads(capsys.readouterr().out)["traces"]
    assert damaged["rows"]["rows"] is None
    assert damaged["rows"]["steps"] == 4
    assert damaged["findings"][0]["severity"] == "error"
    assert killed["findings"][0]["message"].startswith("the writer was stopped before it had written a row")
    assert run(["inspect", "run"]) == 1
    assert "unreadable" in capsys.readouterr().out
    assert run(["inspect", "nowhere"]) == 2


def test_export_names_its_output_and_does_not_overwrite(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "run"]) == 0
    assert "wrote run.perfetto.json" in capsys.readouterr().out
    assert json.loads(Path("run.perfetto.json").read_text())["traceEvents"]
    assert run(["export", "run"]) == 2
    assert "--force" in capsys.readouterr().err
    assert run(["export", "run", "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["file"] == "run.perfetto.json"


def test_import_maps_streams_and_tells(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("trace.json").write_text(json.dumps([_kernel(7, 0), _kernel(8, 5), {"ph": "s"}]))
    assert run(["import", "trace.json", "--lane", "device 0 stream 8=copy"]) == 0
    printed = capsys.readouterr().out
    assert "lanes: device 0 stream 8: lane copy, kernel 1" in printed
    assert "dropped: phase s: 1" in printed
    assert open_trace(Path("trace-imported")).table("events")["lane"].to_list() == ["compute", "copy"]
    assert run(["import", "trace.json"]) == 2
    assert "--force" in capsys.readouterr().err
    assert run(["import", "trace.json", "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"]["events"] == 2


def test_broken_input_is_a_finding(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("trace.json").write_text(json.dumps([_kernel(7, 0), _kernel(7, "late")]))
    assert run(["import", "trace.json", "--out", "kept"]) == 1
    assert "warning: 1 rejected: ts and dur are no span of time" in capsys.readouterr().out
    assert open_trace(Path("kept")).table("events").height == 1


@pytest.mark.parametrize(
    ("lane", "message"),
    [
        ("stream 7", "expected STREAM=LANE"),
        ("device 0 stream 7=host", "LANE one of prepare, compute, copy"),
        ("stream 9=copy", "no stream 'stream 9'"),
    ],
)
def test_a_lane_that_makes_no_sense_is_refused(
    trace: Path, lane: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("trace.json").write_text(json.dumps([_kernel(7, 0)]))
    assert run(["import", "trace.json", "--lane", lane]) == 2
    assert message in capsys.readouterr().err
    assert not Path("trace-imported").exists()


def _profile(path: Path) -> Path:
    """A decode step: one range that rules know, a launch in it, its kernel, and a hundred categories of no use."""
    events = [
        {"ph": "X", "cat": "user_annotation", "name": "step[decode bs=4]", "pid": 1, "tid": 1, "ts": 0, "dur": 50},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 1, "tid": 1, "ts": 5, "dur": 5,
         "args": {"correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 20, "dur": 90,
         "args": {"correlation": 1, "device": 0, "stream": 7}},
        *({"ph": "X", "cat": f"mine_{i}", "name": "n", "pid": 1, "tid": 1, "ts": 1, "dur": 1} for i in range(100)),
    ]  # fmt: skip
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_import_names_ops_and_says_what_it_left_out_in_ten_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _profile(Path("p.json"))
    assert run(["import", "p.json", "--map", "sglang", "--out", "trace"]) == 0
    printed = capsys.readouterr().out.splitlines()
    dropped = [line for line in printed if line.startswith("  dropped: ")]
    assert len(dropped) == 11
    assert dropped[-1] == "  dropped: and 91 more, in manifest.json"
    assert "  ops: named: launch_target 1, target 1" in printed
    assert run(["report", "trace", "--out", "page.html"]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--map", "nowhere"], "no rules of that name ship"),
        (["--step-marker", "nothing"], "matches no annotation and no host call"),
        (["--device", "device 9"], "no device 'device 9'"),
    ],
)
def test_import_refuses_choices_that_fit_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    _profile(Path("p.json"))
    assert run(["import", "p.json", *options, "--out", "trace"]) == 2
    assert message in capsys.readouterr().err

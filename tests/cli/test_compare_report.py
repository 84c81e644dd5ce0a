import json
from dataclasses import replace
from pathlib import Path

import pytest

from simtool.cli.main import run
from simtool.trace.trace import open_trace, write_trace
from tests.synthetic import make_trace


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name in ("static", "this-step", "lag"):
        make_trace(folder / name, name, requests=18)
    return {path.name: str(path) for path in folder.iterdir()}


def test_compare_says_which_and_how_sure(paths, capsys):
    # one live run each tells nothing
    assert run(["compare", paths["this-step"], paths["lag"], paths["static"], "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    (group,) = result["groups"]
    assert group["baseline"] == "static (live)"
    assert {row["other"] for row in group["comparisons"]} == {"lag", "this-step"}
    assert all(row["low"] <= row["ratio"] <= row["high"] for row in group["comparisons"])
    assert result["findings"] == []


def test_compare_prints_the_verdict_and_its_method(paths, capsys):
    assert run(["compare", paths["static"], paths["lag"], "--metric", "step_time", "--baseline", "lag"]) == 1
    printed = capsys.readouterr().out
    assert "static" in printed
    assert "cannot tell static from lag by one run each" in printed
    assert "one run each" in printed


def test_compare_says_each_verdict_once(tmp_path, capsys):
    names = ("this-step", "static", "lag")
    runs = [make_trace(tmp_path / name, name, origin="replayed", host_scale=3.0, requests=18) for name in names]
    assert run(["compare", *(str(trace.path) for trace in runs), "--json"]) == 0
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    assert any(row["resolved"] for row in group["comparisons"])
    assert run(["compare", *(str(trace.path) for trace in runs)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert [printed.count(row["verdict"]) for row in group["comparisons"]] == [1, 1]


def test_unlike_traces_are_a_finding(paths, tmp_path, capsys):
    other = make_trace(tmp_path / "other", "lag", seed=0, new_tokens=30, requests=18)
    assert run(["compare", paths["static"], str(other.path)]) == 1
    assert "finding: 18 greedy outputs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "options", "fragment"),
    [
        (["static"], [], "1 trace given; give two or more"),
        (["static", "static"], [], "is given twice"),
        (["static", "lag"], ["--baseline", "best"], "expected a placement among the traces: lag, static"),
    ],
)
def test_bad_use(paths, names, options, fragment, capsys):
    assert run(["compare", *(paths[name] for name in names), *options]) == 2
    assert fragment in capsys.readouterr().err


def test_report_is_named_after_its_input_and_never_overwrites_unasked(paths, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["report", paths["lag"], paths["this-step"]]) == 0
    assert (tmp_path / "reports" / "lag.html").read_text().startswith("<!doctype html>")
    assert "wrote reports/lag.html" in capsys.readouterr().out
    assert run(["report", paths["lag"]]) == 2
    assert "--force" in capsys.readouterr().err
    assert run(["report", paths["lag"], "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"] == "reports/lag.html"


def test_a_run_without_decode_steps_cannot_be_compared(paths, tmp_path, capsys):
    lag = open_trace(Path(paths["lag"]))
    manifest = replace(lag.manifest, origin="imported", placement=None)
    empty = write_trace(tmp_path / "empty", manifest, {"events": lag.table("events")})
    assert run(["compare", paths["lag"], str(empty.path)]) == 2
    assert "no decode step to compare" in capsys.readouterr().err

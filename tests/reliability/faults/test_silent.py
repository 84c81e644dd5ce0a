"""A few steps of an open loop settle nothing, and runs whose batches differ are compared over the whole run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simtool.cli.main import run
from tests.reliability.hostile.inputs import add_all_outcomes
from tests.synthetic import make_trace

_FIGURES = ("steady_tokens_per_s", "whole_run_tokens_per_s", "step_ns", "acceptance_length")
_HEADING = "TIMESTAMP,ContextTokens,GeneratedTokens"


@pytest.fixture
def replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two placements that served four requests, which came a second apart, with room for far more."""
    monkeypatch.chdir(tmp_path)
    add_all_outcomes(make_trace(tmp_path / "toy", "lag", requests=5, new_tokens=24))
    rows = [f"2024-05-10 00:00:0{second}.0000000,{10 + second},{5 + second}" for second in range(4)]
    (tmp_path / "az.csv").write_text("\n".join([_HEADING, *rows]))
    options = ["--requests", "az.csv", "--arrivals", "poisson:14", "--concurrency", "32", "--out", "out"]
    assert run(["replay", "toy", "--policy", "static", "--policy", "lag", *options]) == 0
    return tmp_path


def test_a_few_steps_of_an_open_loop_settle_nothing(replayed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["compare", "out/toy-static", "out/toy-lag", "--json"]) == 1
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    (found,) = group["comparisons"]
    assert found["resolved"] is False
    assert (found["low"], found["high"]) == (None, None)
    assert "cannot tell" in found["verdict"]


def test_a_replay_is_replayed_at_another_concurrency_as_its_recording(
    replayed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A replay keeps every outcome of its source, so that what it is replayed from makes no difference."""
    assert run(["calibrate", "toy", "--out", "p.json"]) == 0
    costs = ["--profile", "p.json"]
    assert run(["replay", "toy", "--policy", "lag", *costs, "--out", "once"]) == 0
    found = []
    for source in ("toy", "once/toy-lag"):
        capsys.readouterr()
        assert run(["replay", source, "--policy", "static", *costs, "--concurrency", "2", "--json"]) == 0
        line = json.loads(capsys.readouterr().out)["runs"][0]
        found.append([line[key] for key in _FIGURES])
    assert found[0] == found[1]


def test_costs_of_another_machine_are_named_in_the_answer(replayed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", "toy", "--out", "p.json"]) == 0
    told = json.loads(Path("p.json").read_text())
    Path("p.json").write_text(json.dumps(told | {"device_name": "a faster one", "name": "theirs"}))
    for command in (["replay", "toy", "--policy", "lag"], ["sweep", "toy", "--jobs", "1", "--out", "s.csv"]):
        capsys.readouterr()
        assert run([*command, "--profile", "p.json"]) == 0
        assert "modeled at the costs of another machine, theirs" in " ".join(capsys.readouterr().out.split())

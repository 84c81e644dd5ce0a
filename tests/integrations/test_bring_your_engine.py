"""docs/bring-your-engine.md walked as its reader walks it, on a load of vLLM: every command, and what it prints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from simtool.cli.documents.transcripts import printed_by, transcripts
from simtool.cli.main import run
from simtool.profile.absorbed import with_absorbed
from simtool.profile.storage import load_profile
from simtool.step.placement import VLLM_ARMS
from simtool.trace.trace import open_trace
from tests.integrations import vllm_run
from tests.integrations.vllm_load import write_load

PAGE = Path(__file__).parents[2] / "docs" / "bring-your-engine.md"
ASSUMED = ["--set", "decide=50us", "--set", "read_confidence=20us"]


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the recording leaves, imported and calibrated."""
    folder = tmp_path_factory.mktemp("load")
    log, profile = write_load(folder)
    assert run(["import", "--step-log", str(log), str(profile), "--out", str(folder / "run")]) == 0
    assert run(["calibrate", str(folder / "run"), "--out", str(folder / "p.json")]) == 0
    return folder


def _advise(folder: Path, *more: str) -> list[str]:
    return ["advise", str(folder / "run"), "--profile", str(folder / "p.json"), *more]


def test_the_page_ends_in_the_answer_that_its_commands_print(tmp_path: Path) -> None:
    write_load(tmp_path)
    walked = transcripts(PAGE.read_text())
    assert [each.command.split()[0] for each in walked] == ["import", "calibrate", "replay", "advise", "advise"]
    for each in walked:
        printed = printed_by(each.command, tmp_path)
        told = "\n".join(printed)
        assert each.holds(printed), f"stale (python -m tests.integrations.vllm_load {PAGE.name}); it prints:\n{told}"


def test_the_run_is_replayed_as_it_was(load: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Steps that were not profiled tell no wait of the read, so nothing is learned of it there."""
    options = ["--policy", "vllm/static", "--profile", str(load / "p.json"), "--outcomes", "resample", "--json"]
    capsys.readouterr()
    assert run(["replay", str(load / "run"), *options]) == 0
    held = json.loads(capsys.readouterr().out)["against_run"]
    assert held["replayed_tokens_per_s"] == pytest.approx(held["recorded_tokens_per_s"], rel=0.02)


def test_what_the_profile_covers_is_told_and_times_of_requests_are_sound(
    load: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = open_trace(load / "run")
    steps = trace.table("steps").height
    assert trace.manifest.details["join"]["steps_with_events"] < 0.6 * steps
    assert any(f"of {steps} logged steps" in warning for warning in trace.manifest.warnings)
    capsys.readouterr()
    run(["inspect", str(load / "run")])
    assert "warning: requests" not in capsys.readouterr().out


def test_the_most_that_pruning_could_give(load: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(_advise(load, "--json")) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["use"] is None
    assert not told["told"]
    assert told["bound"]["rows"] == "of_sequences"
    # a step: the target's rows that are not verified, and nothing else, are what a perfect prune takes off
    rows = trace_rows(load)
    saved_us = vllm_run.TARGET_ROW_US * (rows["verified"] - rows["needed"])
    assert told["bound"]["saved_ns"] / 1000 == pytest.approx(saved_us, rel=0.05)
    assert told["verdict"]["ratio"] == pytest.approx(
        told["bound"]["step_ns"] / (told["bound"]["step_ns"] - told["bound"]["saved_ns"])
    )
    assert all(ratio <= told["verdict"]["ratio"] for ratio in told["bound"]["fixed"].values())


def trace_rows(load: Path) -> dict[str, float]:
    """Rows of a full step: verified, and needed when it is known what will be accepted."""
    trace = open_trace(load / "run")
    full = trace.table("steps").filter(kind="decode", batch=8)["step"]
    rows = trace.table("rows")
    rows = rows.filter(rows["step"].is_in(full.implode()))
    return {
        "verified": float((rows["prefix_len"] + 1).sum()) / len(full),
        "needed": float((rows["accepted"] + 1).sum()) / len(full),
    }


def test_a_controller_at_assumed_costs_says_that_they_are(load: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    run(_advise(load, *ASSUMED, "--seeds", "3", "--json"))
    told = json.loads(capsys.readouterr().out)
    assert told["bound"] is None
    assert [each["other"] for each in told["candidates"]] == ["vllm/this-step"]
    assert told["verdict"]["baseline"] == "vllm/static"
    assert "assumed costs, decide=50us, read_confidence=20us" in told["answer"]


@pytest.fixture(scope="module")
def uniform(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose steps all verify as many rows."""
    folder = tmp_path_factory.mktemp("uniform")
    log, profile = vllm_run.write_run(folder, prunes=False)
    assert run(["import", "--step-log", str(log), str(profile), "--out", str(folder / "run")]) == 0
    assert run(["calibrate", str(folder / "run"), "--out", str(folder / "p.json")]) == 0
    return folder


def test_without_the_cost_of_a_row_nothing_can_be_told(uniform: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(_advise(uniform)) == 1
    assert capsys.readouterr().out.startswith("Cannot tell: every profiled step verified as many rows")


@pytest.mark.parametrize("command", ["advise", "replay"])
def test_a_controller_that_would_weigh_it_is_refused(
    command: str, uniform: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--policy", "vllm/this-step", *(["--outcomes", "resample"] if command == "replay" else [])]
    assert run([command, *_advise(uniform, *ASSUMED, *options)[1:]]) == 2
    assert "nothing tells that" in capsys.readouterr().err


def test_no_confidence_is_of_no_age(load: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lags", str(load / "run"), "--profile", str(load / "p.json")]) == 2
    assert "logged no confidence" in capsys.readouterr().err


def test_a_copy_that_the_profile_did_not_see_is_free_and_a_kernel_is_not(load: Path) -> None:
    profile = load_profile(load / "p.json")
    seen = {name: cost for name, cost in profile.decode.device.items() if name not in ("read_tokens", "target")}
    found = with_absorbed(replace(profile, decode=replace(profile.decode, device=seen)), VLLM_ARMS["vllm/static"])
    assert found.decode.device["read_tokens"].duration.predict({}) == 0
    assert "target" not in found.decode.device

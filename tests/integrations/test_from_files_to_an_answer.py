"""From what a run of vLLM leaves to an answer: import, calibrate, replay, compare, report, all from files."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from simtool.cli.main import run
from simtool.profile.storage import load_profile
from simtool.trace.importers.recorded_order import recorded_order
from simtool.trace.trace import open_trace
from tests.integrations import vllm_run as vllm


@pytest.fixture(scope="module", params=["the plugin's ops", "vLLM's ranges"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The imported run, its profile, and a replay of the same order: ops from the log, or from the profile by rules."""
    folder, ranges = tmp_path_factory.mktemp("vllm"), request.param == "vLLM's ranges"
    log, profile = vllm.write_run(folder, ranges=ranges)
    rules = ["--map", "vllm"] if ranges else []
    assert run(["import", "--step-log", str(log), str(profile), *rules, "--out", str(folder / "run")]) == 0
    assert run(["calibrate", str(folder / "run"), "--out", str(folder / "p.json")]) == 0
    options = ["--policy", "vllm/static", "--profile", str(folder / "p.json"), "--outcomes", "resample"]
    assert run(["replay", str(folder / "run"), *options, "--out", str(folder / "replays")]) == 0
    return folder


def test_graph_kernels_become_the_work_of_their_op(folder: Path) -> None:
    trace = open_trace(folder / "run")
    assert trace.manifest.details["join"]["by"] == "time"
    device = trace.table("events").filter(pl.col("lane") != "host")
    counts = dict(device["op"].value_counts().iter_rows())
    decodes = vllm.STEPS - 1
    assert counts == {"target": decodes, "verify": decodes, "draft": decodes, "read_tokens": vllm.STEPS, "prefill": 1}
    targets = device.filter((pl.col("op") == "target") & (pl.col("step") > 0)).sort("step")
    rows = trace.table("steps").filter(pl.col("kind") == "decode").sort("step")["validate_rows"]
    lasted_us = (targets["end_ns"] - targets["start_ns"]) / 1000
    assert lasted_us.to_list() == pytest.approx((vllm.TARGET_US + vllm.TARGET_ROW_US * rows).to_list(), abs=0.01)
    waits = trace.table("events").filter(pl.col("op") == "read_tokens", pl.col("lane") == "host")
    assert waits["wait_start_ns"].null_count() == 0


def test_the_profile_is_what_the_run_cost(folder: Path) -> None:
    profile = load_profile(folder / "p.json")
    target = profile.decode.device["target"].duration
    assert target.per_feature_ns["target_rows"] == pytest.approx(vllm.TARGET_ROW_US * 1000, rel=0.01)
    assert target.intercept_ns == pytest.approx(vllm.TARGET_US * 1000, rel=0.01)
    assert profile.decode.device["draft"].duration.predict({}) == pytest.approx(vllm.DRAFT_US * 1000, rel=0.01)
    for op in ("schedule", "launch_target", "finish"):
        assert profile.decode.host[op].pre.predict({}) == pytest.approx(vllm.HOST_US[op] * 1000, rel=0.01)
    assert profile.decode.host["build_query"].pre.predict({}) == 0
    assert any("not told apart, so free" in warning for warning in profile.provenance.warnings)
    assert profile.models == {"target": {"id": "Qwen3-8B"}}


def test_the_answer_is_compared_and_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replayed = folder / "replays" / "run-vllm-static"
    assert (
        run(["compare", str(folder / "run"), str(replayed), "--json"]) == 1
    )  # a run beside its replay: nothing to compare
    assert json.loads(capsys.readouterr().out)["groups"]
    assert run(["report", str(folder / "run"), str(replayed), "--out", str(folder / "report.html")]) == 0
    assert "vLLM" in (folder / "report.html").read_text()


@pytest.fixture(scope="module")
def unpruned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of a run that verifies all that it drafts, as vLLM does."""
    folder = tmp_path_factory.mktemp("unpruned")
    log, profile = vllm.write_run(folder, prunes=False)
    assert run(["import", "--step-log", str(log), str(profile), "--out", str(folder / "run")]) == 0
    assert run(["calibrate", str(folder / "run"), "--out", str(folder / "p.json")]) == 0
    return folder


def _replay(folder: Path, *more: str) -> list[str]:
    options = ["--policy", "vllm/static", "--profile", str(folder / "p.json"), "--outcomes", "resample"]
    return ["replay", str(folder / "run"), *options, *more]


def test_the_run_replayed_in_its_own_order_is_the_run(unpruned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The draft is behind the verify, for the step after, and the tokens are copied behind it on the same stream."""
    order, profile = recorded_order(open_trace(unpruned / "run")), load_profile(unpruned / "p.json")
    assert order is not None
    assert order.name == "vllm/static"
    assert profile.executors["copy"] == profile.executors["compute"]
    latencies = [work.queue.intercept_ns for work in profile.decode.device.values()]
    assert max(latencies) < vllm.DRAFT_US * 1000 / 10  # no op's work is taken for a latency
    capsys.readouterr()
    assert run(_replay(unpruned, "--json")) == 0
    held = json.loads(capsys.readouterr().out)["against_run"]
    assert held["placement"] == "vllm/static"
    assert held["replayed_tokens_per_s"] == pytest.approx(held["recorded_tokens_per_s"], rel=0.02)
    assert held["replayed_step_ns"] == pytest.approx(held["recorded_step_ns"], rel=0.02)
    assert run(_replay(unpruned)) == 0
    assert "held against the run itself, vllm/static replays at" in capsys.readouterr().out


def test_what_did_not_run_so_is_not_held_against_it(
    unpruned: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At another price, or where the run verified less than all."""
    capsys.readouterr()
    for command in (_replay(unpruned, "--set", "finish=1ms", "--json"), _replay(folder, "--json")):
        assert run(command) == 0
        assert json.loads(capsys.readouterr().out)["against_run"] is None


def test_what_a_placement_adds_must_be_given(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["replay", str(folder / "run"), "--profile", str(folder / "p.json"), "--outcomes", "resample"]
    assert run([*command, "--policy", "lag"]) == 2
    assert "--set" in capsys.readouterr().err
    given = ["decide=50us", "build_varlen=300us", "fill_varlen=100us", "store_confidence=20us"]
    options = [option for change in given for option in ("--set", change)]
    assert run([*command, "--policy", "static", "--policy", "lag", *options, "--json"]) == 0
    static, lag = json.loads(capsys.readouterr().out)["runs"]
    assert static["origin"] == lag["origin"] == "replayed"

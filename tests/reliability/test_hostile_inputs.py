"""Hostile inputs of every kind, a small part of `make hostile`; and kinds that were once accepted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simtool.cli.main import run
from simtool.engine.models.config import Fields, draft_config, target_config
from simtool.errors import CheckpointError, ProfileError, TraceError
from simtool.profile.profile import Profile
from simtool.trace.importers.requests import read_requests
from simtool.trace.manifest import Manifest
from tests.engine import golden
from tests.reliability.hostile.inputs import add_all_outcomes
from tests.replay.synthetic import constant_costs, profile_of
from tests.synthetic import make_trace
from tests.trace.importers.kineto_file import BASE_NS, call, kernel, span
from tests.trace.small import small_manifest

_ROOT = Path(__file__).parents[2]
Change = Callable[[dict[str, Any]], None]


def test_drawn_inputs_are_refused_or_rightly_accepted() -> None:
    command = [sys.executable, "benchmarks/hostile.py", "inputs", "--count", "30", "--first", "50"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "30 in all, 0 of them unsound"


def _pre(key: str, value: object) -> Change:
    def act(table: dict[str, Any]) -> None:
        table["decode"]["host"]["schedule"]["pre"][key] = value

    return act


_QUALITY = {"n": "x", "mean_ns": 1.0, "p50_ns": 1.0, "p99_ns": 1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_pre("intercept_ns", True), "True is no number"),
        (_pre("intercept_ns", "5"), "'5' is no number"),
        (_pre("quality", ""), "is not a cost"),
        (_pre("residuals_ns", ""), "residuals_ns is ''; expected a list of numbers"),
        (_pre("refits", {"intercept_ns": "", "per_feature_ns": {}}), "refits are lists of numbers"),
        (_pre("quality", _QUALITY), "quality.n is 'x'; expected a number"),
        (_pre("refits", {"intercept_ns": [], "per_feature_ns": {}, "more": 1}), "refits have keys"),
        (lambda table: table["decode"]["host"]["schedule"].update(more=1), "has keys launches, more, post"),
        (lambda table: table["decode"]["device"]["target"].update(more=1), "has keys duration, more, queue"),
        (lambda table: table["decode"].update(more={}), "has keys device, host, more"),
        (lambda table: table["executors"].update(copy=3), "executors is ['device', 'device', 3]"),
        (lambda table: table.update(predictor=""), "is not a profile"),
        (lambda table: table.update(pinned="x"), "pinned is 'x'"),
        (lambda table: table.update(pinned=["x"]), "pinned holds 'x', which is no op"),
        (lambda table: table.update(temperatures="12"), "temperatures is '12'"),
        (lambda table: table.update(graphs=3), "graphs is 3; expected a table"),
        (lambda table: table.update(models={"target": {"id": 3}}), "models.target is [3]"),
        (lambda table: table["provenance"].update(bundles=[1]), "provenance.bundles is [1]"),
        (lambda table: table["provenance"].update(warnings="x"), "provenance.warnings is 'x'"),
        (lambda table: table["provenance"].update(command=3), "provenance.command is [3]"),
    ],
)
def test_profiles(change: Change, message: str) -> None:
    table = json.loads(json.dumps(profile_of(constant_costs(pre=1_000, duration=5_000)).to_dict()))
    Profile.from_dict(table)
    change(table)
    with pytest.raises(ProfileError) as error:
        Profile.from_dict(table, "p.json")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"controller": {"predictor": 1e300}}, "controller: is"),
        ({"controller": {"min_gain": "x"}}, "controller: min_gain is 'x'"),
        ({"controller": {"no such key": 1}}, "controller: is"),
        ({"sampling": {"temperature": "x"}}, "sampling.temperature is 'x'; expected a number"),
        ({"sampling": {"accept": "any"}}, "sampling.accept is 'any'; expected reject or match"),
        ({"sampling": {"no such key": 1}}, "sampling: unknown 'no such key'"),
        ({"sampling": {"greedy_draft": "x"}}, "sampling.greedy_draft is 'x'"),
        ({"sampling": {"top_p": 2**63}}, "expected a number from 0 to 1"),
        ({"sampling": {"seed": True}}, "sampling.seed is True; expected a number"),
        ({"tables": {"rows": {"rows": 1, "sha256": "0" * 64, "more": 1}}}, "expected rows and sha256"),
    ],
)
def test_manifests(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError) as error:
        Manifest.from_dict({**small_manifest().to_dict(), **changes})
    assert message in str(error.value)


@pytest.mark.parametrize("executors", [{"copy": 3}, {"no such lane": "device"}])
def test_executors(executors: dict[str, object]) -> None:
    with pytest.raises(TraceError, match="executors has"):
        _ = small_manifest(details={"executors": executors}).run


def test_a_layer_of_another_kind_is_refused() -> None:
    config = json.loads((golden.FOLDER / "dspark_b7" / "target" / "config.json").read_text())
    target_config(Fields("c", config))
    for kinds in (["full_attention"] * 3 + ["sliding_attention"], [2**63] * 4, "full_attention", ["full_attention"]):
        with pytest.raises(CheckpointError, match="layer_types"):
            target_config(Fields("c", {**config, "layer_types": kinds}))


@pytest.mark.parametrize("names", [[0], "DFlashDraftModel", 3])
def test_architectures_are_names(names: object) -> None:
    folder = golden.FOLDER / "dspark_b7"
    target = target_config(Fields("t", json.loads((folder / "target" / "config.json").read_text())))
    config = json.loads((folder / "draft" / "config.json").read_text())
    with pytest.raises(CheckpointError, match="architectures"):
        draft_config(Fields("d", {**config, "architectures": names}), target, [])


@pytest.mark.parametrize("base", ['"x"', "[1]", "true", "1e400"])
def test_a_base_that_is_no_time_is_told(base: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    event = json.dumps(kernel("a", 1, 1, 1))
    (tmp_path / "k.json").write_text(f'{{"baseTimeNanoseconds": {base}, "traceEvents": [{event}]}}')
    assert run(["import", str(tmp_path / "k.json"), "--out", str(tmp_path / "out")]) == 1
    assert "1 rejected: baseTimeNanoseconds is no time; read as not said" in "".join(capsys.readouterr())


def test_a_line_with_more_cells_than_the_heading_is_rejected(tmp_path: Path) -> None:
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    lines += [f"2024-05-10 00:00:0{second}.0000000,{cells}" for second, cells in enumerate(("1,2,5", "7,8", "7,8,"))]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    found = read_requests(tmp_path / "a.csv")
    assert dict(found.ledger.rejected) == {"more cells than the heading has": 1}
    assert [request.prompt_tokens for request in found.requests] == [7, 7]


@pytest.mark.parametrize("phase", ["Infinity", "null", "0.5", '"Xy"', "[1]"])
def test_an_event_without_a_phase_is_rejected_once(
    phase: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [span("user_annotation", "step[0]", 0, 50), call("cudaLaunchKernel", 5, 5, 1), kernel("a", 12, 30, 1)]
    broken = json.dumps(span("user_annotation", "b", 1, 2)).replace('"ph": "X"', f'"ph": {phase}')
    text = ", ".join([*map(json.dumps, events), broken])
    (tmp_path / "k.json").write_text(f'{{"baseTimeNanoseconds": {BASE_NS}, "traceEvents": [{text}]}}')
    assert run(["import", str(tmp_path / "k.json"), "--out", str(tmp_path / "out")]) == 1
    told = capsys.readouterr()
    assert (told.out + told.err).count("rejected") == 1
    assert "1 rejected: event has no phase, or one that is no letter" in told.out + told.err


def test_an_id_beyond_64_bits_is_an_id(tmp_path: Path) -> None:
    events = [call("cudaLaunchKernel", 5, 5, 1, tid=2**63), kernel("a", 12, 30, 1)]
    (tmp_path / "k.json").write_text(json.dumps({"baseTimeNanoseconds": BASE_NS, "traceEvents": events}))
    assert run(["import", str(tmp_path / "k.json"), "--out", str(tmp_path / "out")]) == 0


def test_requests_that_come_all_at_once_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_all_outcomes(make_trace(tmp_path / "toy", "static"))
    rows = ["2024-05-10 00:00:00.0000000,10,5"] * 3
    (tmp_path / "a.csv").write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]))
    command = ["replay", str(tmp_path / "toy"), "--policy", "static", "--requests", str(tmp_path / "a.csv")]
    assert run(command) == 0
    assert "the requests of a.csv come all at once, as in a closed loop" in capsys.readouterr().err
    assert run([*command, "--arrivals", "trace"]) == 2

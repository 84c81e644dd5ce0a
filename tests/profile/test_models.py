"""Whose models a profile priced: refused where they differ, allowed when asked, told when unknown."""

import dataclasses
import json
from pathlib import Path

import pytest

from simtool.calibrate.fit import calibrate
from simtool.cli.main import run
from simtool.errors import ProfileError
from simtool.profile.models import check_models, describe_models, pooled_models
from simtool.profile.storage import load_profile, save_profile
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.placement import BUILT_IN
from simtool.trace.manifest import write_manifest
from simtool.trace.trace import Trace, open_trace
from tests.replay.synthetic import constant_costs, profile_of, random_work, save_as_live, source_trace

SMALL = {"target": {"id": "toy-2M", "sha256": "aa" * 32}, "draft": {"id": "toy-d", "sha256": "cc" * 32}}
LARGE = {"target": {"id": "Qwen3-8B", "sha256": "bb" * 32}, "draft": {"id": "toy-d", "sha256": "cc" * 32}}


def _with_models(trace: Trace, models: dict[str, dict[str, str]]) -> Trace:
    write_manifest(trace.path, dataclasses.replace(trace.manifest, models=models))
    return open_trace(trace.path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two traces alike but for their models, and a profile of the small ones."""
    monkeypatch.chdir(tmp_path)
    profile = profile_of(constant_costs(pre=1_000, duration=5_000))
    source = source_trace(tmp_path / "source", random_work(3, 4, 6, tokens=20))
    recorded = replay(source, profile, Scenario(BUILT_IN["static"], 2))
    for name, models in (("small", SMALL), ("large", LARGE), ("silent", {})):
        _with_models(save_as_live(recorded, tmp_path / name), models)
    save_profile(dataclasses.replace(profile, models=SMALL), tmp_path / "p.json")
    return tmp_path


def test_a_profile_keeps_the_models_of_its_traces(folder: Path) -> None:
    assert run(["calibrate", "small", "--out", "s.json"]) == 0
    assert load_profile(folder / "s.json").models == SMALL


def test_traces_of_different_models_are_not_pooled_in_silence(folder: Path) -> None:
    traces = [open_trace(folder / name) for name in ("small", "large")]
    with pytest.raises(ProfileError, match=r"toy-2M \(sha256 aaaaaaaa\).*large: target: Qwen3-8B"):
        calibrate(traces, name="p", command="test", created="2026-01-01")
    pooled = calibrate(traces, name="p", command="test", created="2026-01-01", other_models=True)
    assert pooled.models == {}
    assert pooled.provenance.warnings[0].startswith("traces of different models were pooled: small: target: toy-2M")


def test_another_models_profile_is_refused_and_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--profile", "p.json", "--policy", "static"]
    assert run(["replay", "small", *command]) == 0
    assert "model" not in capsys.readouterr().err
    assert run(["replay", "large", *command]) == 2
    error = capsys.readouterr().err
    assert "p.json was fitted to target: toy-2M (sha256 aaaaaaaa), and " in error
    assert "large ran target: Qwen3-8B (sha256 bbbbbbbb); give a profile" in error
    assert run(["replay", "large", *command, "--allow-other-model"]) == 0
    assert "warning: priced with another model's profile" in capsys.readouterr().err
    assert run(["replay", "silent", *command]) == 0
    assert "silent does not name its models" in capsys.readouterr().err
    assert run(["lags", "large", "--profile", "p.json"]) == 2
    assert (
        run(
            [
                "sweep",
                "large",
                "--profile",
                "p.json",
                "--policy",
                "static",
                "--baseline",
                "static",
                "--allow-other-model",
            ]
        )
        == 0
    )


def test_the_flag_without_effect_is_refused(folder: Path) -> None:
    assert run(["replay", "small", "--policy", "static", "--allow-other-model"]) == 2
    assert run(["calibrate", "small", "--out", "s.json", "--allow-other-model"]) == 2


def test_hashes_decide_and_names_only_where_a_hash_is_absent() -> None:
    renamed = {"target": {"id": "another name", "sha256": "aa" * 32}}
    assert check_models(("p", SMALL), ("t", renamed), allow_other=False) is None
    by_name = {"target": {"id": "Qwen3-8B"}}
    assert check_models(("p", LARGE), ("t", by_name), allow_other=False) is None
    with pytest.raises(ProfileError):
        check_models(("p", SMALL), ("t", by_name), allow_other=False)
    assert describe_models(by_name) == "target: Qwen3-8B, drafter: not said"
    models, warnings = pooled_models([("a", SMALL), ("b", {})], allow_other=False)
    assert models == {}
    assert "b does not name its" in warnings[0]


def test_a_file_of_figures_becomes_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = Path(__file__).parents[2] / "models" / "profiles" / "xllm-2280-like.toml"
    path = tmp_path / "mine.toml"
    models = '[models.target]\nid = "Qwen3-8B"\n\n'
    path.write_text(figures.read_text().replace("[executors]", f"{models}[executors]", 1))
    assert run(["profile", "from-toml", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    made = load_profile(Path(told["profile"]))
    assert made.models == {"target": {"id": "Qwen3-8B"}}
    assert sum(told["figures"].values()) == len(made.provenance.sources)
    assert run(["profile", "from-toml", str(path)]) == 2  # it is there already
    assert run(["profile", "from-yaml", str(path)]) == 2

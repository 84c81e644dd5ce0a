"""NaN or Inf in a live run stops it with the layer's name, whatever is sampled and wherever it comes from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from simtool.cli.main import run
from simtool.engine.devices.virtual import TimedDevice, same_durations
from simtool.engine.models.checkpoint import load_draft, load_target
from simtool.engine.prompts.prompt import Prompt
from simtool.engine.runner.runner import Runner
from simtool.engine.runner.spec import RunnerSpec, SamplingConfig
from simtool.engine.serving.session import RunPlan, Session
from simtool.errors import DeviceError
from simtool.step.placement import BUILT_IN
from tests.engine import golden
from tests.engine.models.test_checkpoint import configure, copied, retensor

__all__ = ["copied"]

_PROMPTS = [Prompt(f"r{i}", (1, 2, 3 + i), 20, key=i) for i in range(3)]
_SAMPLED = SamplingConfig(temperature=0.8, seed=1)


def _spoilt(spec: RunnerSpec, role: str, parameter: str, value: float) -> Session:
    """A session on models of which one weight is not a number, as a kernel that overflows would leave it."""
    target = load_target(spec.target, torch.float32)
    draft = load_draft(spec.draft, target, torch.float32)
    model = {"target": target, "drafter": draft}[role]
    model.get_parameter(parameter).view(-1)[3] = value
    return Session(TimedDevice(Runner(target, draft, spec), same_durations(1_000)), spec)


@pytest.mark.parametrize("sampling", [SamplingConfig(), _SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("role", "parameter", "named"),
    [
        ("target", "layers.1.mlp.down_proj.weight", r"target layers\.1\.mlp\.down_proj"),
        ("target", "norm.weight", "target norm"),
        ("drafter", "layers.0.self_attn.q_proj.weight", r"drafter layers\.0\.self_attn\.q_proj"),
    ],
)
def test_the_first_layer_is_named(
    role: str, parameter: str, named: str, value: float, sampling: SamplingConfig
) -> None:
    session = _spoilt(golden.spec("dspark_b7", sampling=sampling), role, parameter, value)
    with pytest.raises(DeviceError, match=f"^{named}: gives NaN or Inf"):
        session.run(RunPlan(_PROMPTS, BUILT_IN["lag"]))


def test_finite_models_run(tmp_path: Path) -> None:
    session = _spoilt(golden.spec("dspark_b7"), "target", "norm.weight", 1.0)
    assert session.run(RunPlan(_PROMPTS, BUILT_IN["lag"])).output_ids


def test_the_device_process_says_it_in_one_line(copied, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = copied("dspark_b7", "target")
    retensor(target, lambda tensors: tensors["model.norm.weight"].fill_(3e38))  # finite, but not what it makes
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"prompt_ids": [1, 2, 3], "max_new_tokens": 4}))
    models = ["--target", str(target), "--draft", str(golden.FOLDER / "dspark_b7" / "draft")]
    out = tmp_path / "run"
    assert run(["record", *models, "--policy", "static", "--prompt-ids", str(prompts), "--out", str(out)]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "target norm: gives NaN or Inf" in error or "target lm_head: gives NaN or Inf" in error
    assert not out.exists()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"rms_norm_eps": -1}, "rms_norm_eps is -1"),
        ({"rms_norm_eps": 2.0}, "rms_norm_eps is 2"),
        ({"rope_theta": float("nan"), "rope_parameters": None}, "NaN"),
        ({"rope_theta": 0, "rope_parameters": None}, "rope_theta is 0"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers is 1000000000000"),
        ({"num_hidden_layers": 10**6, "layer_types": None}, "num_hidden_layers is 1000000, and there are"),
        ({"head_dim": 15}, "head_dim is 15"),
        ({"vocab_size": 0}, "vocab_size is 0"),
        ({"hidden_act": 3}, "hidden_act is 3"),
        ({"rope_parameters": {"rope_type": []}}, r"rope_type is \[\]"),
    ],
)
def test_configs_out_of_range_are_refused(copied, changes, named) -> None:
    folder = copied("dspark_b7", "target")
    configure(folder, **changes)
    with pytest.raises(Exception, match=named) as error:
        load_target(folder, torch.float32)
    assert type(error.value).__name__ == "CheckpointError"


def test_weights_that_are_no_plain_numbers_are_refused(copied) -> None:
    folder = copied("dspark_b7", "target")
    retensor(folder, lambda t: t.update({"model.norm.weight": torch.ones(64, dtype=torch.int8)}))
    with pytest.raises(Exception, match=r"model\.norm\.weight of I8"):
        load_target(folder, torch.float32)


def test_weights_with_nan_are_refused(copied) -> None:
    folder = copied("dspark_b7", "target")
    retensor(folder, lambda t: t["model.norm.weight"].__setitem__(0, torch.nan))
    with pytest.raises(Exception, match=r"model\.norm\.weight holds NaN or Inf"):
        load_target(folder, torch.float32)


def test_brackets_that_nest_too_deep_are_refused(copied) -> None:
    folder = copied("dspark_b7", "target")
    (folder / "config.json").write_text("[" * 100_000)
    with pytest.raises(Exception, match="nest too deep"):
        load_target(folder, torch.float32)

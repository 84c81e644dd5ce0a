"""Qwen3-MoE targets: the same numbers as transformers gives, and the same as the definition row by row."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

from simtool.engine.models.checkpoint import load_target
from simtool.engine.models.experts import Experts, ExpertSizes
from simtool.engine.outcomes.reference import DenseSequence, target_only
from simtool.engine.runner import fused_cpu_layers as cpu_layers
from simtool.engine.runner.runner import check_graphs
from simtool.errors import CheckpointError, UsageError
from simtool.step.placement import BUILT_IN
from tests.engine import golden
from tests.engine.small_runs import random_prompts, requests, serve

SIZES = ExpertSizes(experts=6, per_token=2, intermediate=24, normed=True)


@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused for the CPU"])
@pytest.mark.parametrize(
    ("seed", "tied", "normed", "every", "dense"),
    [(0, True, True, 1, []), (1, False, False, 2, []), (2, False, True, 1, [1])],
)
def test_logits_and_taps_equal_transformers(tmp_path, seed, tied, normed, every, dense, fused):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(seed)
    config = transformers.Qwen3MoeConfig(
        vocab_size=61, hidden_size=48, intermediate_size=80, moe_intermediate_size=24, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, num_experts=6, num_experts_per_tok=2,
        norm_topk_prob=normed, decoder_sparse_step=every, mlp_only_layers=dense, tie_word_embeddings=tied,
        initializer_range=0.3, max_position_embeddings=128,
    )  # fmt: skip
    public = transformers.Qwen3MoeForCausalLM(config).eval()
    with torch.no_grad():
        for name, parameter in public.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(std=0.3)
    public.save_pretrained(tmp_path)
    ours = load_target(tmp_path, torch.float32)
    assert [ours.config.has_experts(layer) for layer in range(4)] == [
        (layer + 1) % every == 0 and layer not in dense for layer in range(4)
    ]
    if fused:
        cpu_layers.fuse(ours)
    tokens = torch.randint(0, 61, (23,))
    with torch.no_grad():
        theirs = public(tokens[None], output_hidden_states=True)
        cache = DenseSequence()
        first, first_taps = ours(tokens[:15], torch.arange(15), cache, (1, 0))
        rest, rest_taps = ours(tokens[15:], torch.arange(15, 23), cache, (1, 0))
        logits = ours.logits(torch.cat((first, rest)))
    scale = theirs.logits.abs().max()
    assert torch.allclose(logits / scale, theirs.logits[0] / scale, atol=2e-5)
    taps = torch.cat((theirs.hidden_states[2][0], theirs.hidden_states[1][0]), dim=-1)
    assert torch.allclose(torch.cat((first_taps, rest_taps)), taps, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("normed", [False, True])
def test_a_row_is_the_weighted_sum_of_its_likeliest_experts(normed):
    torch.manual_seed(0)
    mixed = Experts(16, replace(SIZES, normed=normed)).double().requires_grad_(False)
    x = torch.randn(9, 16, dtype=torch.float64)
    expected = []
    for row in x:
        chances = (mixed.gate.weight @ row).softmax(-1)
        best = chances.argsort(descending=True)[:2]
        total = chances[best].sum() if normed else 1.0
        given = []
        for expert in (mixed.experts[int(e)] for e in best):
            gate, up, down = (part.weight for part in (expert.gate_proj, expert.up_proj, expert.down_proj))
            given.append(down @ (functional.silu(gate @ row) * (up @ row)))
        expected.append(sum(chances[e] / total * g for e, g in zip(best, given, strict=True)))
    assert torch.allclose(mixed(x), torch.stack(expected), atol=1e-12)


def test_a_row_does_not_depend_on_its_batch():
    torch.manual_seed(1)
    mixed = Experts(16, SIZES).double().requires_grad_(False)
    x = torch.randn(7, 16, dtype=torch.float64)
    assert torch.allclose(mixed(x)[3], mixed(x[[3, 3, 1]])[1], rtol=0, atol=1e-15)


def moe_folder(path: Path, name: str) -> Path:
    """The golden target of that name with random experts in all layers but its first."""
    source = golden.FOLDER / name / "target"
    shutil.copytree(source, path)
    config = json.loads((path / "config.json").read_text())
    tensors = load_file(path / "model.safetensors")
    torch.manual_seed(5)
    hidden = config["hidden_size"]
    for layer in range(1, config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}.mlp."
        for part in ("gate_proj", "up_proj", "down_proj"):
            del tensors[f"{prefix}{part}.weight"]
        tensors[f"{prefix}gate.weight"] = torch.randn(6, hidden)
        for expert in range(6):
            for part, shape in (("gate_proj", (24, hidden)), ("up_proj", (24, hidden)), ("down_proj", (hidden, 24))):
                tensors[f"{prefix}experts.{expert}.{part}.weight"] = torch.randn(shape) * 0.2
    config |= {"model_type": "qwen3_moe", "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
               "norm_topk_prob": True, "mlp_only_layers": [0]}  # fmt: skip
    save_file(tensors, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(config))
    return path


@pytest.mark.parametrize("name", ["dspark_b7", "dflash_b16"])
@pytest.mark.parametrize("placement", ["static", "lag-overlap"])
def test_a_mixture_is_served_as_it_decodes_alone(tmp_path, name, placement):
    spec = replace(golden.spec(name, dtype="float64"), target=moe_folder(tmp_path / "target", name))
    target = load_target(spec.target, torch.float64)
    assert [target.config.has_experts(layer) for layer in range(2)] == [False, True]
    prompts = random_prompts(5, (6, 11, 3))
    result, _ = serve(spec, requests(prompts, 14), BUILT_IN[placement])
    for index, prompt in enumerate(prompts):
        assert result.output_ids[f"r{index:02d}"] == target_only(target, prompt, 14)


def test_what_does_not_fit_is_named(tmp_path):
    folder = moe_folder(tmp_path / "target", "dspark_b7")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_experts_per_tok": 7}))
    with pytest.raises(CheckpointError, match="num_experts_per_tok is 7 of 6 experts"):
        load_target(folder, torch.float32)
    (folder / "config.json").write_text(json.dumps(config | {"num_experts": 7}))
    with pytest.raises(CheckpointError, match=r"missing model\.layers\.1\.mlp\.experts\.6"):
        load_target(folder, torch.float32)


def test_graphs_are_refused(tmp_path):
    spec = replace(golden.spec("dspark_b7"), graph_rows=8)
    check_graphs(spec, load_target(spec.target, torch.float32))
    with pytest.raises(UsageError, match="graph_rows is 8, and which experts run is read back"):
        check_graphs(spec, load_target(moe_folder(tmp_path / "target", "dspark_b7"), torch.float32))

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from simtool.engine.models.checkpoint import load_target
from simtool.engine.outcomes.reference import DenseSequence
from simtool.engine.runner import fused_cpu_layers as cpu_layers


def saved_qwen3(folder: Path, *, seed: int, tied: bool, heads: int, kv_heads: int, bias: bool):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(seed)
    config = transformers.Qwen3Config(
        vocab_size=61, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=16, tie_word_embeddings=tied, attention_bias=bias,
        initializer_range=0.3, max_position_embeddings=128,
    )  # fmt: skip
    model = transformers.Qwen3ForCausalLM(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
            elif name.endswith("bias"):  # transformers starts them at zero
                parameter.normal_(std=0.3)
    tensors = {name: t.contiguous() for name, t in model.state_dict().items()}
    if tied:
        del tensors["lm_head.weight"]
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    return model


@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused for the CPU"])
@pytest.mark.parametrize(
    ("seed", "tied", "heads", "kv_heads", "bias"),
    [(0, True, 4, 2, False), (1, False, 4, 1, False), (2, False, 3, 3, True)],
)
def test_logits_and_taps_equal_transformers(tmp_path, seed, tied, heads, kv_heads, bias, fused) -> None:
    public = saved_qwen3(tmp_path, seed=seed, tied=tied, heads=heads, kv_heads=kv_heads, bias=bias)
    ours = load_target(tmp_path, torch.float32)
    if fused:
        cpu_layers.fuse(ours)
    tokens = torch.randint(0, 61, (23,))
    with torch.no_grad():
        theirs = public(tokens[None], output_hidden_states=True)
        cache = DenseSequence()
        first, first_taps = ours(tokens[:15], torch.arange(15), cache, (1, 0))
        rest, rest_taps = ours(tokens[15:], torch.arange(15, 23), cache, (1, 0))
        logits = ours.logits(torch.cat((first, rest)))
    assert torch.allclose(logits, theirs.logits[0], atol=2e-4)
    taps = torch.cat((theirs.hidden_states[2][0], theirs.hidden_states[1][0]), dim=-1)
    assert torch.allclose(torch.cat((first_taps, rest_taps)), taps, atol=2e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_every_dtype_runs(dtype: torch.dtype) -> None:
    golden = Path(__file__).parents[2] / "data" / "golden" / "dspark_b7" / "target"
    target = load_target(golden, dtype)
    hidden, taps = target(torch.arange(6), torch.arange(6), DenseSequence(), (0, 2))
    assert hidden.dtype == taps.dtype == target.logits(hidden).dtype == dtype
    assert taps.shape == (6, 128)


def test_without_taps_there_are_no_features() -> None:
    golden = Path(__file__).parents[2] / "data" / "golden" / "dspark_b7" / "target"
    _, features = load_target(golden, torch.float32)(torch.arange(3), torch.arange(3), DenseSequence())
    assert features.shape == (3, 0)

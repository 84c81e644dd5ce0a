"""A target that transformers wrote, and a drafter in each public format, from `record` to `report`, no special flag."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from simtool.cli.main import run
from simtool.engine.models.checkpoint import load_target
from simtool.engine.models.draft import DraftConfig, DraftModel
from simtool.engine.outcomes.reference import target_only
from simtool.trace.trace import open_trace

VOCAB, HIDDEN, TAPS = 23, 32, (0, 2)
PROMPTS = [[1, 2, 3], [5, 4, 3, 2, 1, 7, 8], [9] * 12, [20, 11]]
SIZES = {
    "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 10_000.0, "model_type": "qwen3",
}  # fmt: skip
HEADS = {"markov_rank": 4, "markov_head_type": "gated", "enable_confidence_head": True}
CONFIGS = {
    "deepspec-dspark": SIZES | HEADS | {
        "architectures": ["Qwen3DSparkModel"], "block_size": 5, "mask_token_id": 22, "target_layer_ids": list(TAPS),
        "confidence_head_with_markov": True, "num_target_layers": 4,
    },
    "deepspec-dflash": SIZES | {
        "architectures": ["Qwen3DSparkModel"], "block_size": 5, "mask_token_id": 22, "target_layer_ids": list(TAPS),
    },
    "zlab-dflash": SIZES | {
        "architectures": ["DFlashDraftModel"], "block_size": 6, "num_target_layers": 4,
        "dflash_config": {"mask_token_id": 22, "target_layer_ids": list(TAPS)},
    },
    "speculators": HEADS | {
        "speculators_model_type": "dspark", "architectures": ["DSparkDraftModel"], "block_size": 5,
        "mask_token_id": 22, "aux_hidden_state_layer_ids": [tap + 1 for tap in TAPS],
        "transformer_layer_config": SIZES, "draft_vocab_size": VOCAB,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Path:
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("models") / "target"
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        **{name: value for name, value in SIZES.items() if name not in ("model_type", "rope_theta")}
        | {"num_hidden_layers": 4, "tie_word_embeddings": True, "initializer_range": 0.3, "eos_token_id": 21}
    )
    transformers.Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


def write_drafter(folder: Path, name: str) -> None:
    """A drafter of random weights, with the tensors that its format holds."""
    borrows = name == "zlab-dflash"
    heads = name in ("deepspec-dspark", "speculators")
    config = DraftConfig(
        algorithm="dspark" if heads else "dflash", trained_drafts=5, samples_anchor_row=not borrows, mask_token_id=22,
        tap_ids=TAPS, vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=48, layers=2, heads=4, kv_heads=2,
        head_dim=8, rope_theta=10_000.0, eps=1e-6, max_positions=256, own_embedding=not borrows, own_head=not borrows,
        markov_type="gated" if heads else None, markov_rank=4 if heads else 0, confidence_head=heads,
        confidence_with_markov=name == "deepspec-dspark",
    )  # fmt: skip
    torch.manual_seed(1)
    model = DraftModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3)
    folder.mkdir()
    save_file({key: value.contiguous() for key, value in model.state_dict().items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIGS[name]))


@pytest.mark.parametrize("name", CONFIGS)
def test_record_replay_and_report(name, target, tmp_path, capsys):
    write_drafter(tmp_path / "draft", name)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt_ids": ids, "max_new_tokens": 9}) + "\n" for ids in PROMPTS))
    models = ["--target", str(target), "--draft", str(tmp_path / "draft")]
    policy = "lag" if name == "deepspec-dspark" else "static"
    recorded = str(tmp_path / "recorded")
    command = ["record", *models, "--prompt-ids", str(prompts), "--policy", policy, "--outcomes", "full"]
    assert run([*command, "--out", recorded]) == 0
    trace = open_trace(Path(recorded))
    loaded = load_target(target, torch.float64)
    assert trace.table("requests").sort("request_id")["output_ids"].to_list() == [
        target_only(loaded, prompt, 9, frozenset({21})) for prompt in PROMPTS
    ]
    assert (trace.manifest.sl, trace.manifest.algorithm) == (5, ALGORITHMS[name])
    assert not trace.manifest.warnings
    capsys.readouterr()
    assert run(["inspect", recorded]) == 0
    assert run(["replay", recorded, "--policy", policy, "--out", str(tmp_path / "again"), "--json"]) == 0
    replayed = open_trace(tmp_path / "again" / f"recorded-{policy}")
    same = ["step", "request_id", "anchor_position", "prefix_len", "accepted", "emitted"]
    assert replayed.table("rows").select(same).equals(trace.table("rows").select(same))
    assert run(["report", recorded, str(replayed.path), "--out", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").stat().st_size > 0


ALGORITHMS = {
    "deepspec-dspark": "dspark",
    "deepspec-dflash": "dflash",
    "zlab-dflash": "dflash",
    "speculators": "dspark",
}

"""Write models in the public checkpoint formats, 16-bit, with their provenance beside them."""

from __future__ import annotations

import json
import platform
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from simtool.engine.models.draft import DraftModel
from simtool.engine.models.target import TargetModel

DTYPE = torch.float16  # eight times finer than bfloat16, and nothing here comes near its range


def provenance(seed: int, corpus: str, **facts: object) -> dict[str, object]:
    """What it takes to judge or repeat a training run; written as training.json."""
    return {
        "seed": seed,
        "corpus_sha256": corpus,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        **facts,
    }


def narrow(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Cast to 16 bits; refuse values that float16 cannot hold."""
    narrowed = {name: t.detach().to(DTYPE).contiguous().clone() for name, t in tensors.items()}
    broken = [name for name, t in narrowed.items() if not torch.isfinite(t).all()]
    if broken:
        sys.exit(f"not finite in {DTYPE}: {', '.join(broken)}")
    return narrowed


def write_folder(
    folder: Path, config: dict[str, object], tensors: dict[str, Tensor], training: dict[str, object]
) -> None:
    """config.json, model.safetensors and training.json; readers never see a half-written tensor file."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / "model.partial"
    save_file(narrow(tensors), partial, metadata={"format": "pt"})
    partial.replace(folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "training.json").write_text(json.dumps(training, indent=2) + "\n")


def qwen3_config(model: TargetModel) -> dict[str, object]:
    """The target's config in the public Qwen3 form."""
    c = model.config
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": c.vocab_size,
        "hidden_size": c.hidden_size,
        "intermediate_size": c.intermediate_size,
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads,
        "num_key_value_heads": c.kv_heads,
        "head_dim": c.head_dim,
        "hidden_act": "silu",
        "attention_bias": c.attention_bias,
        "rms_norm_eps": c.eps,
        "rope_parameters": {"rope_theta": c.rope_theta, "rope_type": "default"},
        "max_position_embeddings": c.max_positions,
        "tie_word_embeddings": c.tied_embeddings,
        "use_sliding_window": False,
        "dtype": str(DTYPE).removeprefix("torch."),
        "eos_token_id": list(c.eos_token_ids) or None,
    }


def save_target(folder: Path, model: TargetModel, training: dict[str, object], tokenizer: Path) -> None:
    """The target as a Qwen3 folder with its tokenizer."""
    tensors: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        tensors[name if name.startswith("lm_head") else f"model.{name}"] = parameter
    write_folder(folder, qwen3_config(model), tensors, training)
    if tokenizer.resolve() != (folder / "tokenizer.json").resolve():
        shutil.copyfile(tokenizer, folder / "tokenizer.json")


def save_draft(folder: Path, draft: DraftModel, target: TargetModel, training: dict[str, object]) -> None:
    """A drafter as a DeepSpec folder, or as a z-lab folder where it borrows the target's embedding and head."""
    c = draft.config
    config = qwen3_config(target) | {
        "num_hidden_layers": c.layers,
        "num_target_layers": target.config.layers,
        "tie_word_embeddings": False,
    }
    if c.own_embedding:
        config |= {
            "architectures": ["Qwen3DSparkModel"],
            "block_size": c.trained_drafts,
            "target_layer_ids": list(c.tap_ids),
            "mask_token_id": c.mask_token_id,
            "markov_rank": c.markov_rank,
            "enable_confidence_head": c.confidence_head,
        }
        if c.markov_type is not None:
            config["markov_head_type"] = c.markov_type
        if c.confidence_head:
            config["confidence_head_with_markov"] = c.confidence_with_markov
    else:
        config |= {
            "architectures": ["DFlashDraftModel"],
            "block_size": c.trained_drafts + 1,
            "dflash_config": {"target_layer_ids": list(c.tap_ids), "mask_token_id": c.mask_token_id},
        }
    write_folder(folder, config, dict(draft.named_parameters()), training)

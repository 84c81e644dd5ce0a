"""Folders that do not fit are refused, with the thing that does not fit named."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from simtool.engine.models.checkpoint import load_draft, load_target
from simtool.engine.models.config import default_tap_ids
from simtool.errors import CheckpointError

GOLDEN = Path(__file__).parents[2] / "data" / "golden"


@pytest.fixture
def copied(tmp_path: Path) -> Callable[..., Path]:
    def copy(name: str, role: str = "draft") -> Path:
        shutil.copytree(GOLDEN / name / role, tmp_path / role)
        return tmp_path / role

    return copy


def configure(folder: Path, *absent: str, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k not in absent}))


def retensor(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file({name: t.contiguous() for name, t in tensors.items()}, folder / "model.safetensors")


def draft_of(folder: Path, name: str):
    return load_draft(folder, load_target(GOLDEN / name / "target", torch.float32), torch.float32)


def test_every_tensor_that_does_not_fit_is_named(copied) -> None:
    folder = copied("dspark_b7", "target")

    def change(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["model.layers.1.mlp.up_proj.weight"]
        tensors["model.layers.9.odd.weight"] = torch.zeros(2)
        tensors["model.norm.weight"] = torch.zeros(63)

    retensor(folder, change)
    with pytest.raises(CheckpointError) as error:
        load_target(folder, torch.float32)
    for part in ("missing model.layers.1.mlp.up_proj.weight", "not expected model.layers.9.odd.weight",
                 "model.norm.weight [63] instead of [64]"):  # fmt: skip
        assert part in str(error.value)


def test_shards_with_an_index_equal_one_file(copied) -> None:
    folder = copied("dspark_b7", "target")
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    weight_map = {n: f"model-0000{1 + (i % 2)}-of-00002.safetensors" for i, n in enumerate(names)}
    for file in set(weight_map.values()):
        save_file({n: tensors[n] for n in names if weight_map[n] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (folder / "model.safetensors").unlink()
    sharded, whole = load_target(folder, torch.float32), load_target(GOLDEN / "dspark_b7" / "target", torch.float32)
    for name, parameter in whole.named_parameters():
        assert torch.equal(parameter, sharded.get_parameter(name))
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match="model-00002-of-00002"):
        load_target(folder, torch.float32)


def test_an_index_may_not_point_outside_the_folder(copied) -> None:
    folder = copied("dspark_b7", "target")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../x.safetensors"}}))
    with pytest.raises(CheckpointError, match="outside"):
        load_target(folder, torch.float32)


def test_a_pickle_is_not_opened(copied) -> None:
    folder = copied("dspark_b7", "target")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        load_target(folder, torch.float32)


def test_a_broken_file_and_a_missing_folder_are_told_apart(copied, tmp_path) -> None:
    folder = copied("dspark_b7", "target")
    (folder / "model.safetensors").write_bytes(b"not tensors")
    with pytest.raises(CheckpointError, match="not a readable safetensors"):
        load_target(folder, torch.float32)
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_target(tmp_path / "nowhere", torch.float32)
    (folder / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="not JSON"):
        load_target(folder, torch.float32)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": "llama"}, "llama"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"use_sliding_window": True}, "use_sliding_window"),
        ({"num_key_value_heads": 3}, "3 kv heads"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "yarn"),
        ({"vocab_size": "8"}, "vocab_size is '8'"),
    ],
)
def test_targets_that_do_not_run_here_are_refused(copied, changes, named) -> None:
    folder = copied("dspark_b7", "target")
    configure(folder, **changes)
    with pytest.raises(CheckpointError, match=named):
        load_target(folder, torch.float32)


def test_the_older_rope_theta_is_read(copied) -> None:
    folder = copied("dspark_b7", "target")
    configure(folder, "rope_parameters", rope_theta=5e5)
    assert load_target(folder, torch.float32).config.rope_theta == 5e5


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"target_layer_ids": [0, 1, 3]}, "layer 3 is the last"),
        ({"target_layer_ids": [-1, 0, 1]}, "0..2"),
        ({"num_target_layers": 6}, "num_target_layers is 6"),
        ({"mask_token_id": 8}, "mask_token_id is 8"),
        ({"markov_head_type": "lstm"}, "lstm"),
        ({"block_size": 0}, "no draft token"),
        ({"markov_rank": 0}, "confidence_head_with_markov"),
    ],
)
def test_drafters_that_do_not_fit_are_refused(copied, changes, named) -> None:
    folder = copied("dspark_b7")
    configure(folder, **changes)
    with pytest.raises(CheckpointError, match=named):
        draft_of(folder, "dspark_b7")


def test_a_drafter_of_another_target_is_refused(copied) -> None:
    with pytest.raises(CheckpointError, match="num_target_layers is 4, the target has 6"):
        draft_of(copied("dspark_b7"), "dflash_b16")


def test_a_target_folder_is_not_a_drafter() -> None:
    with pytest.raises(CheckpointError, match="expected a DSpark or DFlash drafter"):
        draft_of(GOLDEN / "dspark_b7" / "target", "dspark_b7")


def test_zlab_defaults_where_ids_are_absent(copied) -> None:
    folder = copied("dflash_b16")
    configure(folder, dflash_config={"mask_token_id": 4})
    assert draft_of(folder, "dflash_b16").config.tap_ids == (1, 3)
    assert default_tap_ids(5, 36) == (1, 9, 17, 25, 33)
    assert default_tap_ids(5, 40) == (1, 10, 19, 28, 37)
    assert default_tap_ids(1, 6) == (3,)


def speculators(folder: Path, **changes: Any) -> None:
    """Rewrite a DeepSpec folder as a speculators-style one."""
    config = json.loads((folder / "config.json").read_text())
    kept = {k: config[k] for k in ("block_size", "mask_token_id", "markov_rank", "markov_head_type",
                                   "enable_confidence_head", "confidence_head_with_markov")}  # fmt: skip
    new = kept | {
        "speculators_model_type": "dspark",
        "transformer_layer_config": config,
        "aux_hidden_state_layer_ids": [tap + 1 for tap in config["target_layer_ids"]],
        "draft_vocab_size": config["vocab_size"],
        "sample_from_anchor": True,
    }
    (folder / "config.json").write_text(json.dumps(new | changes))


def test_speculators_style_equals_the_deepspec_folder(copied) -> None:
    folder = copied("dspark_b7")
    expected = draft_of(folder, "dspark_b7").config
    speculators(folder)
    assert draft_of(folder, "dspark_b7").config == expected


def test_a_reduced_draft_vocabulary_is_refused(copied) -> None:
    folder = copied("dspark_b7")
    speculators(folder, draft_vocab_size=4)
    with pytest.raises(CheckpointError, match="reduced draft vocabularies are not supported"):
        draft_of(folder, "dspark_b7")


def test_speculators_dflash_does_not_sample_the_anchor_row(copied) -> None:
    folder = copied("nomarkov_b7")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({
        "speculators_model_type": "dflash", "transformer_layer_config": config, "block_size": 8,
        "mask_token_id": 7, "aux_hidden_state_layer_ids": [1, 2, 3],
    }))  # fmt: skip
    found = draft_of(folder, "nomarkov_b7").config
    assert (found.algorithm, found.samples_anchor_row, found.trained_drafts) == ("dflash", False, 7)
    assert found.own_embedding
    assert found.own_head


@pytest.mark.parametrize("kind", ["gated", "rnn"])
def test_other_markov_heads_load(copied, kind: str) -> None:
    folder = copied("dspark_b7")
    configure(folder, markov_head_type=kind)

    def add(tensors: dict[str, torch.Tensor]) -> None:
        rank, hidden = 8, 64
        rows, columns = (rank, hidden + rank) if kind == "gated" else (3 * rank, 2 * rank + hidden)
        name = "gate_proj" if kind == "gated" else "joint_proj"
        tensors[f"markov_head.{name}.weight"] = torch.randn(rows, columns)
        tensors[f"markov_head.{name}.bias"] = torch.randn(rows)

    with pytest.raises(CheckpointError, match="missing markov_head"):
        draft_of(folder, "dspark_b7")
    retensor(folder, add)
    assert draft_of(folder, "dspark_b7").config.markov_type == kind


def test_confidence_without_bias_or_markov_features(copied) -> None:
    folder = copied("dspark_b7")
    configure(folder, "confidence_head_with_markov")

    def change(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["confidence_head.proj.bias"]
        tensors["confidence_head.proj.weight"] = torch.zeros(1, 64)

    retensor(folder, change)
    config = draft_of(folder, "dspark_b7").config
    assert (config.confidence_bias, config.confidence_with_markov) == (False, False)

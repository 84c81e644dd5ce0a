"""Where a model folder says which tokens end an output."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from simtool.engine.models.checkpoint import load_target
from simtool.errors import CheckpointError
from tests.engine import golden


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(golden.FOLDER / "dspark_b7" / "target", tmp_path / "target")
    return tmp_path / "target"


def write(folder, name, eos):
    path = folder / name
    config = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(config | {"eos_token_id": eos}))


@pytest.mark.parametrize(
    ("config", "generation", "expected"),
    [(None, None, ()), (3, None, (3,)), ([3, 4], None, (3, 4)), (3, [5, 3], (5, 3)), (None, 6, (6,))],
)
def test_generation_config_goes_before_config(folder, config, generation, expected):
    write(folder, "config.json", config)
    write(folder, "generation_config.json", generation)
    assert load_target(folder, torch.float32).config.eos_token_ids == expected
    if generation is None:
        (folder / "generation_config.json").unlink()
        assert load_target(folder, torch.float32).config.eos_token_ids == expected


def test_end_tokens_that_are_none(folder):
    write(folder, "generation_config.json", ["</s>"])
    with pytest.raises(CheckpointError, match=r"generation_config\.json: eos_token_id is \['</s>'\], expected"):
        load_target(folder, torch.float32)

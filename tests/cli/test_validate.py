"""`simtool validate` tells the live controller and the replay's the same, and keeps it in what it writes."""

from __future__ import annotations

import shutil

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from simtool.cli.main import run
from simtool.trace.trace import open_trace
from tests.cli.documents.schemas import checked
from tests.engine import golden

PAIR = golden.FOLDER / "dspark_b7"


@pytest.fixture
def target(tmp_path):
    """The small pair's target with a tokenizer of its eight words, for prompts are drawn as text."""
    folder = tmp_path / "target"
    shutil.copytree(PAIR / "target", folder)
    words = ["<unk>", "def", "return", "if", "the", "a", "of", "to"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def test_the_controllers_settings_go_to_the_live_runs_and_to_the_replay(target, tmp_path, capsys):
    out = tmp_path / "v"
    shape = ["--num-prompts", "2", "--max-new-tokens", "6", "--concurrency", "2", "--policy", "this-step"]
    told = ["--draft-ms", "6", "--min-gain", "0.5"]
    pair = ["--target", str(target), "--draft", str(PAIR / "draft")]
    assert run(["validate", *pair, "--tokens-only", *shape, *told, "--json", "--out", str(out)]) == 0
    setting = checked(capsys.readouterr().out)["setting"]
    controllers = [open_trace(out / name).manifest.controller for name in ("live/this-step-0", "replayed/this-step")]
    assert controllers[0] == controllers[1]
    for each in (*controllers, setting):
        assert each["predictor"] is not None
        assert (each["draft_ms"], each["min_gain"]) == (6.0, 0.5)

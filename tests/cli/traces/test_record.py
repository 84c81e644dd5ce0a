"""`simtool record` refuses what it cannot do in one line, with exit 2, before anything is written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simtool.cli.main import run
from simtool.trace.trace import open_trace
from tests.engine import golden

PAIR = golden.FOLDER / "dspark_b7"
MODELS = ["--target", str(PAIR / "target"), "--draft", str(PAIR / "draft")]


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "in" / "prompts.jsonl"
    path.parent.mkdir()
    path.write_text('{"prompt_ids": [1, 2, 3], "max_new_tokens": 5}\n{"prompt_ids": [4], "max_new_tokens": 5}\n')
    return path


@pytest.fixture
def record(tmp_path, prompts):
    """Run the command with good options, of which some are replaced by bad ones."""

    def run_with(*options: str, models: list[str] = MODELS, policy: str = "static", out: str = "bundle") -> int:
        where = ["--policy", policy, "--out", str(tmp_path / out), "--prompt-ids", str(prompts)]
        return run(["record", *models, *where, *options])

    return run_with


BAD: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "unknown policy": ({"policy": "fastest"}, [], "unknown placement 'fastest'; expected one of static"),
    "placement file": ({"policy": "mine.toml"}, [], "mine.toml: cannot be read"),
    "sl": ({}, ["--sl", "0"], "--sl is 0; expected 1 or more"),
    "sl text": ({}, ["--sl", "many"], "--sl is 'many'"),
    "concurrency": ({}, ["--concurrency", "0"], "--concurrency is 0"),
    "dtype": ({}, ["--dtype", "float8"], "dtype is 'float8'; expected one of float32"),
    "temperature": ({}, ["--temperature", "-1"], "temperature is -1.0"),
    "top-p": ({}, ["--temperature", "1", "--top-p", "0"], "top_p is 0.0"),
    "top-k without sampling": ({}, ["--top-k", "5"], "change nothing at temperature 0"),
    "sampled outcomes": (
        {},
        ["--temperature", "1", "--outcomes", "full"],
        "--outcomes full needs one outcome an anchor",
    ),
    "accept": ({}, ["--temperature", "1", "--accept", "any"], "accept is 'any'; expected one of reject, match"),
    "greedy match": ({}, ["--accept", "match"], "accept match: would change nothing at temperature 0"),
    "outcomes": ({}, ["--outcomes", "all"], "--outcomes is 'all'"),
    "block size": ({}, ["--block-size", "0"], "block_size is 0"),
    "kv blocks": ({}, ["--kv-blocks", "0"], "kv_blocks is 0"),
    "device": ({}, ["--device", "tpu"], "unknown device 'tpu'"),
    "both files": ({}, ["--prompts", "x.jsonl"], "--prompt-ids and --prompts were both given"),
    "no such target": ({"models": ["--target", "nowhere", *MODELS[2:]]}, [], "nowhere: no such folder"),
    "no such draft": ({"models": [*MODELS[:2], "--draft", "nowhere"]}, [], "nowhere: no such folder"),
    "half a pair": ({"models": MODELS[:2]}, [], "--draft is missing; give both or neither"),
    "not a model": ({"models": ["--target", str(PAIR), *MODELS[2:]]}, [], "config.json: cannot be read"),
    "two drafters": ({}, ["--algorithm", "dspark"], "--algorithm picks a shipped drafter, and --draft names one"),
    "algorithm": ({"models": []}, ["--algorithm", "eagle"], "--algorithm is 'eagle'"),
    "static decides nothing": ({}, ["--predictor", "none"], "--predictor has no effect on static"),
    "gain of static": ({}, ["--min-gain", "0"], "--min-gain has no effect on static"),
    "draft time": ({"policy": "lag"}, ["--draft-ms", "-1"], "--draft-ms is -1.0; expected 0 or more"),
    "prompts": ({}, ["--num-prompts", "3"], "--num-prompts is 3 and the file holds 2"),
    "new tokens": ({}, ["--max-new-tokens", "0"], "--max-new-tokens is 0"),
    "no path": ({"out": "in/prompts.jsonl/bundle"}, [], "nothing can be written under"),
    "a folder of other files": ({"out": "in"}, ["--force"], "not a trace (no manifest.json in it)"),
    "something there": ({"out": "in"}, [], "is already there; pass --force"),
    "a file": ({"out": "in/prompts.jsonl"}, ["--force"], "is a file"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_use_is_one_line_and_leaves_nothing(case, record, tmp_path, capsys):
    changes, options, message = BAD[case]
    assert record(*options, **changes) == 2
    *notes, error = capsys.readouterr().err.splitlines()
    assert error.startswith("simtool: ")
    assert message in error
    assert len(notes) <= 1  # the lengths of the prompts
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "prompts.jsonl"]


def test_bad_use_that_only_the_loaded_models_show(record, prompts, tmp_path, capsys):
    """A request longer than the models hold, one beyond the KV pool, a predictor that is no profile."""
    assert record("--kv-blocks", "1", "--block-size", "4") == 2
    assert "need 4 KV blocks and the cache has 1" in capsys.readouterr().err
    prompts.write_text(json.dumps({"prompt_ids": [1] * 500, "max_new_tokens": 20}))
    assert record(policy="lag") == 2
    assert "request r0000: 500 prompt + 20 new tokens" in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "prompts.jsonl"]


def test_a_sampled_this_step_run_keeps_its_warning(prompts, tmp_path, capsys):
    """Prompt ids through the DFlash pair; the trace says that its output may be biased, and --force replaces it."""
    folder = golden.FOLDER / "dflash_b16"
    prompts.write_text('{"prompt_ids": [1, 2, 3], "max_new_tokens": 5}\n')
    command = ["record", "--target", str(folder / "target"), "--draft", str(folder / "draft"), "--policy", "this-step",
               "--prompt-ids", str(prompts), "--out", str(tmp_path / "b"), "--predictor", "none"]  # fmt: skip
    assert run([*command, "--temperature", "1", "--sl", "4"]) == 0
    warnings = open_trace(tmp_path / "b").manifest.warnings
    assert [warning.partition(":")[0] for warning in warnings] == [
        "SL 4 differs from the drafter's trained block of 15",
        "this-step at temperature 1 can bias the output",
    ]
    assert f"warning: {warnings[1]}" in capsys.readouterr().err
    assert run(command) == 2
    assert "pass --force to replace it" in capsys.readouterr().err

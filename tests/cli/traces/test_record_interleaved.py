"""`simtool record` of several placements: real runs that take turns, with record's options, then compared."""

import json
from pathlib import Path

import pytest

from simtool.cli.main import run
from simtool.trace.outcome_coverage import OutcomeCoverage
from simtool.trace.trace import open_trace
from tests.cli.documents.schemas import checked
from tests.engine import golden

SHIPPED = Path(__file__).parents[3] / "models" / "profiles"
PAIR = golden.FOLDER / "dspark_b7"
MODELS = ["--target", str(PAIR / "target"), "--draft", str(PAIR / "draft")]


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    lines = [{"prompt_ids": [i, 5, 7, 6 - i], "max_new_tokens": 8} for i in range(4)]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


def test_runs_take_turns_and_each_is_a_whole_trace(prompts, tmp_path, capsys):
    out = tmp_path / "runs"
    arms = ["--policy", "static", "--policy", "lag", "--repeats", "2", "--predictor", "none", "--concurrency", "2"]
    options = ["--prompt-ids", str(prompts), "--kv-blocks", "20", "--out", str(out), "--json"]
    assert run(["record", *MODELS, *arms, *options]) == 0
    printed = capsys.readouterr()
    assert f"next: simtool compare {out}/*" in printed.err
    assert {line["placement"] for line in checked(printed.out)["runs"]} == {"static", "lag"}
    names = ["static-0", "static-1", "lag-0", "lag-1"]
    traces = {name: open_trace(out / name) for name in names}
    assert {path.name for path in out.iterdir()} == set(names)
    for repeat in (0, 1):
        static, lag = traces[f"static-{repeat}"], traces[f"lag-{repeat}"]
        assert static.manifest.concurrency == lag.manifest.concurrency == 2
        assert static.manifest.details["kv_blocks"] == 20
        assert static.table("requests")["output_tokens"].equals(lag.table("requests")["output_tokens"])
        assert static.manifest.details["in_turns_with"] == [f"lag-{repeat}"]
    assert run(["compare", *(str(out / name) for name in names), "--verbose"]) in (0, 1)
    assert "recorded in turns, step by step" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "static", "--policy", "static"], "--policy static is given twice"),
        (["--policy", "static", "--repeats", "0"], "--repeats is 0"),
        (["--policy", "static", "--repeats", "2", "--profile", "3"], "--profile runs one placement again"),
    ],
)
def test_bad_use_is_one_line_and_leaves_nothing(prompts, options, message, tmp_path, capsys):
    assert run(["record", *MODELS, *options, "--prompt-ids", str(prompts), "--out", str(tmp_path / "runs")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert not (tmp_path / "runs").exists()


def test_validate_splits_a_file_of_prompts(prompts, tmp_path, capsys):
    """Costs are fitted on the first half of the file and judged on the second; tokens are exact."""
    out = tmp_path / "v"
    arms = ["--policy", "static", "--policy", "lag", "--repeats", "2", "--concurrency", "2", "--block-size", "4"]
    assert run(["validate", *MODELS, *arms, "--prompt-ids", str(prompts), "--out", str(out), "--json"]) == 0
    assert checked(capsys.readouterr().out)["pairs"]
    fit, live = (open_trace(out / use / "static-0") for use in ("fit", "live"))
    assert fit.manifest.details["block_size"] == live.manifest.details["block_size"] == 4
    assert fit.table("requests").height == live.table("requests").height == 2
    assert fit.table("requests")["prompt_ids"].to_list() != live.table("requests")["prompt_ids"].to_list()


def test_validate_needs_two_sets_and_greedy_decoding(prompts, tmp_path, capsys):
    use = ["validate", *MODELS, "--prompt-ids", str(prompts), "--out", str(tmp_path / "v")]
    assert run([*use, "--num-prompts", "3"]) == 2
    assert "the file holds 4" in capsys.readouterr().err
    assert run([*use, "--temperature", "0.7"]) == 2
    assert "record them interleaved" in capsys.readouterr().err
    assert not (tmp_path / "v").exists()


def test_validate_judges_matched_sampling_token_by_token(prompts, tmp_path, capsys):
    out = tmp_path / "v"
    arms = ["--policy", "static", "--policy", "this-step", "--policy", "lag-overlap", "--concurrency", "2"]
    load = ["--prompt-ids", str(prompts), "--temperature", "0.9", "--accept", "match", "--tokens-only"]
    assert run(["validate", *MODELS, *arms, *load, "--out", str(out), "--json"]) == 0
    judged = checked(capsys.readouterr().out)
    assert judged["rows"] > judged["mismatches"] == 0
    sampled = open_trace(out / "live" / "static-0")
    assert sampled.manifest.sampling["accept"] == "match"
    assert OutcomeCoverage.of(sampled).disagreeing == 0
    greedy = tmp_path / "greedy"
    assert run(["record", *MODELS, "--policy", "static", "--prompt-ids", str(prompts), "--out", str(greedy)]) == 0
    outputs = [open_trace(path).table("requests")["output_ids"].to_list() for path in (out / "live/static-0", greedy)]
    assert outputs[0] != outputs[1][: len(outputs[0])]


@pytest.mark.parametrize("told", [[], ["--draft-ms", "3"]])
def test_a_draft_time_takes_the_place_of_the_profiles_step_table(prompts, tmp_path, told):
    out = tmp_path / "run"
    profile = ["--predictor", str(SHIPPED / "measured-sl7.json"), *told]
    options = ["--policy", "lag-overlap-late@forecast", "--prompt-ids", str(prompts), "--out", str(out)]
    assert run(["record", *MODELS, *profile, *options]) == 0
    assert (open_trace(out).manifest.controller.get("table") is None) == bool(told)

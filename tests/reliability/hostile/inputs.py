"""Good inputs of every kind, which `kinds.draw` spoils, and what comes of it."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from simtool.cli.main import run
from simtool.profile.storage import save_profile
from simtool.trace.outcome_coverage import add_outcomes
from simtool.trace.trace import Trace
from tests.engine import golden
from tests.reliability.hostile.spoiling import Change
from tests.replay.synthetic import constant_costs, profile_of
from tests.synthetic import make_trace, outcome
from tests.trace.importers.kineto_file import call, kernel, save, span
from tests.trace.importers.test_step_log import LINES

MODELS = ["--target", "pair/target", "--draft", "pair/draft"]
_RULES = '[[rule]]\non = "range"\nmatch = "^step"\nop = "schedule"\n'


@dataclass(frozen=True)
class Drawn:
    """A command of which one input is hostile, and in which way. Paths are relative to the folder of the inputs."""

    kind: str
    command: list[str]
    change: Change


def make_inputs(folder: Path, *, live: bool = True) -> None:
    """Write good inputs of every kind; `kinds.draw` spoils one of a copy. live: models and a recording too."""
    folder.mkdir(parents=True)
    for name, placement, noise in (("toy", "lag", 0), ("toy2", "static", 1)):
        add_all_outcomes(make_trace(folder / name, placement, noise_seed=noise, requests=5, new_tokens=24))
    save_profile(profile_of(constant_costs(pre=1_000, duration=5_000)), folder / "p.json")
    if live:
        _make_live(folder)
    events = [span("user_annotation", f"step[{index}]", 100 * index, 50) for index in range(3)]
    for index in range(3):
        at = 100 * index
        events += [call("cudaLaunchKernel", at + 5, 5, index), kernel("a", at + 12, 30, index)]
    save(folder / "k.json", events)
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, LINES)) + "\n")
    rows = [f"2024-05-10 00:00:0{second}.0000000,{10 + second},{5 + second}" for second in range(4)]
    (folder / "asked.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows) + "\n")
    asked = [{"timestamp": 500 * at, "input_length": 9, "output_length": 4, "hash_ids": [1]} for at in range(4)]
    (folder / "asked.jsonl").write_text("\n".join(map(json.dumps, asked)) + "\n")
    (folder / "rules.toml").write_text(_RULES)


def _make_live(folder: Path) -> None:
    shutil.copytree(golden.FOLDER / "dspark_b7", folder / "pair")
    lines = [{"prompt_ids": [1 + index, 2, 3], "max_new_tokens": 6} for index in range(3)]
    (folder / "prompts.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    files = ["--prompt-ids", str(folder / "prompts.jsonl"), "--out", str(folder / "live")]
    models = [str(folder / each) if "/" in each else each for each in MODELS]
    assert run(["record", "--policy", "static", *files, *models, "--concurrency", "2"]) == 0


@dataclass(frozen=True)
class _Outcomes:
    """The toy drafter's outcomes at anchors `start`, start + 1, ... of one request."""

    start: int
    confidence: list[list[float]]
    draft_prob: list[list[float]]
    match_run: list[int]
    draft_margin: list[float]


def add_all_outcomes(trace: Trace) -> None:
    """Add the outcomes at every anchor, as `fill` does."""
    filled = {}
    for request in trace.table("requests").iter_rows(named=True):
        name, start, count = request["request_id"], request["prompt_tokens"], request["output_tokens"]
        drawn = [outcome(0, name, start + at) for at in range(count)]
        confidence = [each for each, _ in drawn]
        filled[name] = _Outcomes(start, confidence, confidence, [match for _, match in drawn], [0.5] * count)
    add_outcomes(trace, filled)

"""Good inputs of every kind, and for each kind a draw: one input spoilt, and a command that reads it."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from simtool.cli.main import run
from simtool.engine.models.identity import identity
from simtool.profile.storage import save_profile
from simtool.step.placement import BUILT_IN
from simtool.trace.outcome_coverage import add_outcomes
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace
from tests.engine import golden
from tests.reliability.hostile import arguments, spoiling
from tests.reliability.hostile.spoiling import Change
from tests.replay.synthetic import constant_costs, profile_of
from tests.synthetic import make_trace, outcome
from tests.trace.importers.kineto_file import call, kernel, save, span
from tests.trace.importers.test_step_log import LINES

_MODELS = ["--target", "pair/target", "--draft", "pair/draft"]
_RULES = '[[rule]]\non = "range"\nmatch = "^step"\nop = "schedule"\n'


@dataclass(frozen=True)
class Drawn:
    """A command of which one input is hostile, and in which way. Paths are relative to the folder of the inputs."""

    kind: str
    command: list[str]
    change: Change


def make_inputs(folder: Path, *, live: bool = True) -> None:
    """Write good inputs of every kind; `draw` spoils one of a copy. live: models and a recording too."""
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
    models = [str(folder / each) if "/" in each else each for each in _MODELS]
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


def draw(folder: Path, dice: random.Random) -> Drawn:
    """Spoil one of the inputs in `folder` and return a command that reads it."""
    kind = dice.choice(list(KINDS))
    command, change = KINDS[kind](folder, dice)
    return Drawn(kind, command, change)


def _reads_trace(dice: random.Random) -> list[str]:
    """A command that reads the trace `toy`, at costs that its schema knows."""
    return dice.choice(
        (
            ["inspect", "toy"],
            ["replay", "toy", "--policy", "all", "--out", "out"],
            ["sweep", "toy", "--jobs", "1", "--concurrency", "2,3", "--out", "s.csv"],
            ["calibrate", "toy", "--out", "c.json"],
            ["compare", "toy", "toy2"],
            ["report", "toy", "toy2", "--out", "x.html"],
            ["export", "toy", "--out", "x.json"],
            ["lags", "toy"],
            ["tornado", "toy", "--policy", "lag", "--jobs", "1"],
            ["power", "toy", "toy2"],
            ["advise", "toy", "toy2", "--jobs", "1", "--seeds", "3"],
        )
    )


def _manifest(folder: Path, dice: random.Random) -> tuple[list[str], Change]:
    return _reads_trace(dice), spoiling.spoil_json(folder / "toy" / "manifest.json", dice)


def _table(folder: Path, dice: random.Random) -> tuple[list[str], Change]:
    """Half of them as a wrong writer would leave them: with the hash of what is there."""
    name = dice.choice(list(TABLES))
    change = spoiling.spoil_table(folder / "toy" / f"{name}.parquet", dice)
    if dice.random() < 0.7:
        spoiling.own_hash(folder / "toy", name)
    return _reads_trace(dice), change


def _profile(folder: Path, dice: random.Random) -> tuple[list[str], Change]:
    change = spoiling.spoil_json(folder / "p.json", dice)
    more = ["--profile", "p.json", "--allow-other-model"]
    return dice.choice(
        (
            ["replay", "toy", "--policy", "lag", *more],
            ["sweep", "toy", "--policy", "static", "--policy", "lag", "--jobs", "1", "--out", "s.json", *more],
            ["tornado", "toy", "--policy", "lag", "--jobs", "1", *more],
        )
    ), change


def _checkpoint(folder: Path, dice: random.Random) -> tuple[list[str], Change]:
    """A pair that worked, spoilt in a setting, in its weights or in their header, under a fill or a recording."""
    role = dice.choice(("target", "draft"))
    place = folder / "pair" / role
    if dice.random() < 0.75:
        change = spoiling.spoil_json(place / "config.json", dice)
    elif dice.random() < 0.5:
        change = spoiling.spoil_bytes(place / "model.safetensors", dice)
    else:
        change = _spoil_header(place / "model.safetensors", dice)
    change = replace(change, what=f"{role}/{change.what}")
    if dice.random() < 0.15:
        return ["record", "--policy", "static", *_MODELS, "--prompt-ids", "prompts.jsonl", "--out", "out"], change
    manifest = folder / "live" / "manifest.json"  # as if it had been recorded with this checkpoint
    told = json.loads(manifest.read_text())
    told["models"][role] = identity(place)
    manifest.write_text(json.dumps(told))
    return ["fill", "live", *_MODELS], change


def _spoil_header(file: Path, dice: random.Random) -> Change:
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    made, change = spoiling.spoilt(json.loads(data[8 : 8 + length]), dice, "safetensors header")
    header = json.dumps(made).encode(errors="surrogatepass")
    told = dice.choice((len(header), len(header), len(header), 0, 2**63, len(data)))
    file.write_bytes(told.to_bytes(8, "little") + header + data[8 + length :])
    return change


def _placement(folder: Path, dice: random.Random) -> tuple[list[str], Change]:
    order = [str(slot) for slot in BUILT_IN["lag"].order]
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(order))
        order[at : at + 1] = dice.choice(([], [order[at]] * 2, ["x"], ["-"], [order[at] + "|-"], [order[0]] * 300))
    name = dice.choice(("mine", "mine", "../x", "", "lag", "a\\u001b[2J"))
    lag = dice.choice(("1", "1", "-1", "99", "1.5", '"x"', "nan", "true"))
    more = dice.choice(("", "", 'sync = ["x"]\n', "sync = 3\n", 'sync = ["fill_varlen"]\n', "extra = 1\n", "[order]\n"))
    text = f'name = "{name}"\nlag_steps = {lag}\norder = {json.dumps(order)}\n{more}'
    (folder / "p.toml").write_text(text)
    change = Change("p.toml", "replaced", ("order",), "", f"{name} {lag} {more!r}")
    return dice.choice(
        (
            ["placements", "p.toml"],
            ["replay", "toy", "--policy", "p.toml", "--out", "out"],
            ["sweep", "toy", "--policy", "static", "--policy", "p.toml", "--jobs", "1", "--out", "s.csv"],
        )
    ), change


def _prompts(folder: Path, dice: random.Random) -> tuple[list[str], Change]:
    change = spoiling.spoil_line(folder / "prompts.jsonl", dice)
    return ["record", "--policy", "static", *_MODELS, "--prompt-ids", "prompts.jsonl", "--out", "out"], change


def _asked(folder: Path, dice: random.Random) -> tuple[list[str], Change]:
    name = dice.choice(("asked.csv", "asked.jsonl"))
    spoil = spoiling.spoil_cells if name.endswith("csv") else spoiling.spoil_line
    change = spoil(folder / name, dice)
    if dice.random() < 0.1:
        name = _packed(folder / name, dice)
    return dice.choice(
        (
            ["replay", "toy", "--policy", "lag", "--requests", name, "--time-unit", "ms"][: 6 if "csv" in name else 8],
            ["import", name, "--out", "out"],
        )
    ), change


def _packed(file: Path, dice: random.Random) -> str:
    """As gzip, sometimes cut short."""
    packed = gzip.compress(file.read_bytes())
    made = file.with_name(f"{file.name}.gz")
    made.write_bytes(packed[: dice.choice((len(packed), len(packed) // 2, 10))])
    return made.name


def _import(folder: Path, dice: random.Random) -> tuple[list[str], Change]:
    name = dice.choice(("k.json", "log.jsonl", "rules.toml"))
    if name == "k.json":
        return ["import", name, "--out", "out"], spoiling.spoil_json(folder / name, dice)
    if name == "log.jsonl":
        return ["import", "--step-log", name, "--out", "out"], spoiling.spoil_line(folder / name, dice)
    change = spoiling.spoil_bytes(folder / name, dice)
    return ["import", "k.json", "--map", name, "--out", "out"], change


def _options(_folder: Path, dice: random.Random) -> tuple[list[str], Change]:
    return arguments.spoilt_command(dice)


KINDS: dict[str, Callable[[Path, random.Random], tuple[list[str], Change]]] = {
    "manifest": _manifest,
    "table": _table,
    "profile": _profile,
    "checkpoint": _checkpoint,
    "placement": _placement,
    "prompts": _prompts,
    "request trace": _asked,
    "import": _import,
    "options": _options,
}

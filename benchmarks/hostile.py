"""Hostile inputs and kills, many of them: what `docs/reliability.md` tells of.

`python benchmarks/hostile.py [INPUTS]` draws traces, profiles, placements and prompts that are wrong in one place,
gives each to a command in a process of its own with limits on time and memory, and counts what came of them; then it
kills every writer of `tests/reliability/scenarios.py` at each of its file operations.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from simtool.cli.main import run
from simtool.profile.storage import save_profile
from simtool.step.placement import BUILT_IN
from simtool.trace.schema import TABLES
from tests.reliability.scenarios import SCENARIOS, small_trace
from tests.replay.synthetic import constant_costs, profile_of

_SECONDS, _BYTES = 60, 8 << 30
_VALUES: tuple[Any, ...] = (
    0, -1, 1, 2**31, 2**63, 10**30, 0.5, -0.0, 1e300, float("nan"), float("inf"), True, None, "", "x", "../x",
    "\x1b[2J", "\ud800", "=1+1", [], [1], [[]], {}, {"a": 1},
)  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value, by the keys that lead to it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in _places(each, (*path, key)))]


def _spoilt(value: Any, dice: random.Random) -> Any:
    """The value with one place replaced, removed, or given another key."""
    spoilt = copy.deepcopy(value)
    place = dice.choice(_places(value)[1:])
    holder = spoilt
    for key in place[:-1]:
        holder = holder[key]
    how = dice.choice(("replace", "replace", "replace", "remove", "add"))
    if how == "remove":
        del holder[place[-1]]
    elif how == "add" and isinstance(holder, dict):
        holder["no such key"] = dice.choice(_VALUES)
    else:
        holder[place[-1]] = dice.choice(_VALUES)
    return spoilt


def _spoil_json(file: Path, dice: random.Random) -> None:
    text = json.dumps(_spoilt(json.loads(file.read_text()), dice))
    if dice.random() < 0.1:
        text = dice.choice((text[: len(text) // 2], "[" * 100_000, "", "\x00", text + "x", "\ufeff" + text))
    file.write_text(text, errors="surrogatepass")


def _spoil_table(file: Path, dice: random.Random) -> None:
    """A column of another kind, null, absent, extra or out of order; rows lost, repeated or reversed; other bytes."""
    if dice.random() < 0.15:
        data = bytearray(file.read_bytes())
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        file.write_bytes(data if dice.random() < 0.5 else data[: dice.randrange(len(data))])
        return
    frame = pl.read_parquet(file)
    name = dice.choice(frame.columns)
    number = pl.lit(dice.choice((0, -1, 2**31 - 1, -(2**31))))
    changes: tuple[Callable[[], pl.DataFrame], ...] = (
        lambda: frame.drop(name),
        lambda: frame.with_columns(pl.lit(1).alias("no_such_column")),
        lambda: frame.select(sorted(frame.columns)),
        lambda: frame.with_columns(pl.lit(None, frame.schema[name]).alias(name)),
        lambda: frame.with_columns(pl.lit("x").alias(name)),
        lambda: frame.with_columns(number.cast(frame.schema[name], strict=False).alias(name)),
        lambda: pl.concat([frame, frame]),
        lambda: frame.head(0),
        lambda: frame.head(1),
        frame.reverse,
        lambda: frame.with_columns(pl.col(name).reverse()),
    )
    with contextlib.suppress(pl.exceptions.PolarsError):  # a list takes no number
        dice.choice(changes)().write_parquet(file)


def _placement(file: Path, dice: random.Random) -> None:
    order = [str(slot) for slot in BUILT_IN["lag"].order]
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(order))
        order[at : at + 1] = dice.choice(([], [order[at]] * 2, ["x"], ["-"], [order[at] + "|-"], [order[0]] * 300))
    name = dice.choice(("mine", "../x", "", "lag", "a\\u001b[2J"))
    lag = dice.choice(("1", "-1", "99", "1.5", '"x"', "nan", "true"))
    file.write_text(f'name = "{name}"\nlag_steps = {lag}\norder = {json.dumps(order)}\n')


def _prompts(file: Path, dice: random.Random) -> None:
    line = {"prompt_ids": [1, 2], "max_new_tokens": 2}
    file.write_text(
        json.dumps(_spoilt(line, dice)) + dice.choice(("\n", "", "\u2028", "\n\n{")), errors="surrogatepass"
    )


def _command(folder: Path, dice: random.Random) -> list[str]:
    """Spoil one input and return a command that reads it."""
    trace, profile, placement = folder / "run", folder / "p.json", folder / "p.toml"
    replay = ["replay", str(trace), "--policy", "static", "--profile", str(profile)]
    kind = dice.choice(("manifest", "table", "table", "profile", "profile", "placement", "prompts"))
    if kind == "manifest":
        _spoil_json(trace / "manifest.json", dice)
    elif kind == "table":
        _spoil_table(trace / f"{dice.choice(list(TABLES))}.parquet", dice)
    elif kind == "profile":
        _spoil_json(profile, dice)
        return replay
    elif kind == "placement":
        _placement(placement, dice)
        return [*replay[:3], str(placement), *replay[4:], "--out", str(folder / "out")]
    else:
        _prompts(folder / "prompts.jsonl", dice)
        pair = Path(__file__).parents[1] / "tests" / "data" / "golden" / "dspark_b7"
        models = ["--target", str(pair / "target"), "--draft", str(folder / "nowhere")]
        return ["record", "--policy", "static", *models, "--prompt-ids", str(folder / "prompts.jsonl"), "--out", "out"]
    return dice.choice((["inspect", str(trace)], replay, ["report", str(trace), "--out", str(folder / "x.html")]))


def _outcome(command: list[str]) -> str:
    """What a command came to, in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
        signal.alarm(_SECONDS)
        errors, told = io.StringIO(), "traceback"
        with (
            contextlib.redirect_stderr(errors),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.suppress(BaseException),
        ):
            status = run(command)
            lines = [line for line in errors.getvalue().splitlines() if line.startswith("simtool: ")]
            told = f"exit {status}" if status in (0, 1) or len(lines) == 1 else "no line"
        os.write(writer, told.encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        told = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return told or f"ended by signal {os.WTERMSIG(status)}"


def draw_inputs(count: int, seed: int = 0) -> collections.Counter[str]:
    """Draw hostile inputs and count what they came to; what is not an exit status with a line is printed."""
    found: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as name:
        made = Path(name) / "made"
        prepared = os.fork()  # polars' threads must not be there when the others fork
        if prepared == 0:
            small_trace(made / "run")
            save_profile(profile_of(constant_costs(pre=1_000, duration=5_000)), made / "p.json")
            os._exit(0)
        os.waitpid(prepared, 0)
        for index in range(count):
            folder = Path(name) / "input"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(made, folder)
            os.chdir(folder)
            told = _in_fork(folder, random.Random(f"{seed}:{index}"))
            found[told] += 1
            if not told.startswith("exit "):
                print(f"input {seed}:{index}: {told}", flush=True)
    return found


def _in_fork(folder: Path, dice: random.Random) -> str:
    """Spoiling reads tables, which starts threads, so that too is done in a fork, which hands back the command."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.write(writer, json.dumps(_command(folder, dice)).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        command = json.loads(pipe.read())
    os.waitpid(child, 0)
    return _outcome(command)


def kill_writers() -> tuple[int, int]:
    """Kill every writer at every point; how many kills, and how many lost or left something."""
    kills = bad = 0
    for name, scenario in SCENARIOS.items():
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tests.reliability.killing", name, str(Path(folder) / "work"), "kill", "1"]
            points = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for point in points:
            kills += point["ended"] == signal.SIGKILL
            sound = point["state"] in scenario.allowed and (point["after"], point["left"]) == ("new", [])
            bad += not sound
            if not sound:
                print(f"{name}: {point}", flush=True)
        print(f"{name}: {len(points) - 1} kills", flush=True)
    return kills, bad


if __name__ == "__main__":
    top = os.getcwd()
    print(draw_inputs(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000), flush=True)
    os.chdir(top)
    print("kills, and bad ones among them:", *kill_writers())

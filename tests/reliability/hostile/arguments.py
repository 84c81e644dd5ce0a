"""Command lines of which one option's value makes no sense."""

from __future__ import annotations

import random

from tests.reliability.hostile.spoiling import Change

_VALUES = (
    "0", "-1", "1", "2", "1e300", "-1e300", "nan", "inf", "1_0", " 1", "１", "9" * 30, "0.5", "", "x", "../x", "/",
    "\x1b[2J", "\udcff", "a=b", "a,b", "1,1", "none", "all", "-", "~/x", "target=0", "target=-1ms", "device.target=x0",
    "poisson:1e-300", "poisson:1e300", "trace:0", "closed:3", "target=1e400ms", "*", "lag", "tcp://127.0.0.1:1",
)  # fmt: skip
_COMMANDS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("replay", "toy", "--policy", "lag"): (
        "--policy", "--profile", "--set", "--concurrency", "--lag", "--predictor", "--draft-ms", "--min-gain",
        "--requests", "--time-unit", "--num-requests", "--arrivals", "--outcomes", "--noise", "--seed", "--seeds",
        "--kv-blocks", "--out", "--simulator",
    ),
    ("sweep", "toy", "--jobs", "1", "--out", "s.csv"): (
        "--policy", "--profile", "--predictor", "--set", "--concurrency", "--seeds", "--waves", "--stale-loss",
        "--baseline", "--figure", "--simulator",
    ),
    ("tornado", "toy", "--jobs", "1"): ("--policy", "--predictor", "--set", "--concurrency", "--waves", "--figure"),
    ("break-even", "toy", "--jobs", "1", "--seeds", "2"): ("--policy", "--decision-us", "--concurrency", "--waves"),
    ("lags", "toy"): ("--lag", "--predictor"),
    ("compare", "toy", "toy2"): ("--baseline", "--metric"),
    ("power", "toy", "toy2"): ("--baseline", "--difference", "--chance"),
    ("import", "k.json", "--out", "out"): ("--lane", "--map", "--step-marker", "--device", "--max-expanded-gib"),
    ("fill", "live"): ("--target", "--draft"),
    ("record", "--policy", "static", "--target", "pair/target", "--draft", "pair/draft", "--num-prompts", "1", "--out",
     "out", "--prompt-ids", "prompts.jsonl"): (
        "--repeats", "--device", "--sl", "--concurrency", "--num-prompts", "--max-new-tokens", "--dtype",
        "--predictor", "--draft-ms", "--min-gain", "--outcomes", "--temperature", "--top-p", "--top-k", "--kv-blocks",
        "--block-size", "--graph-rows", "--profile", "--seed",
    ),
}  # fmt: skip


def spoilt_command(dice: random.Random) -> tuple[list[str], Change]:
    """A command line with one option, or one option again, at a drawn value."""
    command = dice.choice(list(_COMMANDS))
    option, value = dice.choice(_COMMANDS[command]), dice.choice(_VALUES)
    return [*command, option, value], Change(command[0], "given", (option,), "", repr(value))

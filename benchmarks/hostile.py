"""Hostile inputs and kills, many of them: what `docs/reliability.md` tells of.

`python benchmarks/hostile.py inputs [--count 1000] [--first 0] [--kind KIND]` draws inputs of every kind that is read,
each wrong in one place, gives each to a command in a process of its own with limits on time and memory, and counts what
came of them. `python benchmarks/hostile.py kills` kills every writer of `tests/reliability/scenarios.py` at each of its
file operations.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.reliability.hostile.inputs import KINDS, Drawn, draw, make_inputs
from tests.reliability.hostile.running import in_fork, outcome_of
from tests.reliability.scenarios import SCENARIOS


def draw_inputs(
    count: int, first: int, kind: str | None, *, verbose: bool = False
) -> tuple[collections.Counter[tuple[str, str]], int]:
    """Draw hostile inputs; count what they came to, by kind, and those that came to what ought not to be."""
    found: collections.Counter[tuple[str, str]] = collections.Counter()
    unsound = 0
    with tempfile.TemporaryDirectory() as name:
        made, folder = Path(name) / "made", Path(name) / "input"
        in_fork(lambda: make_inputs(made))
        for index in range(first, first + count):
            dice = random.Random(f"{kind or ''}{index}")
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(made, folder)
            os.chdir(folder)
            drawn = _drawn(folder, dice, kind)
            outcome = outcome_of(drawn)
            found[drawn.kind, outcome.told] += 1
            unsound += not outcome.sound
            if verbose or not outcome.sound:
                print(f"{index} {outcome.told}: {' '.join(drawn.command)}: {drawn.change}: {outcome.said}", flush=True)
    return found, unsound


def _drawn(folder: Path, dice: random.Random, kind: str | None) -> Drawn:
    """Spoiling reads tables, which starts threads, so that too is done in a fork, which hands back what it drew."""

    def act() -> Drawn:
        if kind is None:
            return draw(folder, dice)
        command, change = KINDS[kind](folder, dice)
        return Drawn(kind, command, change)

    return in_fork(act)


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


def main() -> None:
    """Run one of the campaigns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("campaign", choices=("inputs", "kills"))
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("-v", action="store_true")
    asked = parser.parse_args()
    if asked.campaign == "kills":
        print("kills, and bad ones among them:", *kill_writers())
        return
    top = os.getcwd()
    found, unsound = draw_inputs(asked.count, asked.first, asked.kind, verbose=asked.v)
    os.chdir(top)
    for (kind, told), count in sorted(found.items()):
        print(f"{count:5d}  {kind}: {told}")
    print(f"{found.total()} inputs, {unsound} of them unsound")
    sys.exit(bool(unsound))


if __name__ == "__main__":
    main()

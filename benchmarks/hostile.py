"""Hostile inputs and kills, many of them: what `docs/reliability.md` tells of.

`python benchmarks/hostile.py inputs [--count 1000] [--first 0] [--kind KIND]` draws inputs of every kind that is read,
each wrong in one place, gives each to a command in a process of its own with limits on time and memory, and counts what
came of them. `python benchmarks/hostile.py kills [--count 30] [--command NAME]` kills every writer of
`tests/reliability/scenarios.py` at each of its file operations, then stops whole commands, `count` times each, evenly
over their time: killed, a helper of theirs killed, or Ctrl-C (`tests/reliability/stopped`). With a command's name it
does the second to that one alone.
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
import time
from pathlib import Path

from tests.reliability.hostile.inputs import KINDS, Drawn, draw, make_inputs
from tests.reliability.hostile.running import in_fork, outcome_of
from tests.reliability.scenarios import SCENARIOS
from tests.reliability.stopped.stopping import COMMANDS, How, after, prepare, run_again, stop

#: Stops at one place, each on what the last has left, before the command runs to its end there.
_ROUND = (How.KILL, How.KILL, How.INTERRUPT, How.KILL, How.HELPER)


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


def stop_command(name: str, count: int) -> tuple[collections.Counter[tuple[How, int]], int]:
    """Stop a command so often; how often by which means with which exit status, and how much was wrong."""
    found: collections.Counter[tuple[How, int]] = collections.Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        made, work = Path(folder) / "made", Path(folder) / "work"
        prepare(made, live=name == "fill")
        shutil.copytree(made, work)
        started_s = time.monotonic()
        wrong += run_again(work, name)
        lasts_s = time.monotonic() - started_s
        for index in range(count):
            if index % len(_ROUND) == 0:
                shutil.rmtree(work)
                shutil.copytree(made, work)
            how = _ROUND[index % len(_ROUND)]
            at_s = lasts_s * random.Random(index).random()
            stopped = stop(work, name, how, after(at_s))
            found[how, stopped.ended] += 1
            now = [f"{how.value} at {at_s:.2f} s: {each}" for each in stopped.wrong]
            if index % len(_ROUND) == len(_ROUND) - 1 or index == count - 1:
                now += run_again(work, name)
            for each in now:
                print(f"{name}: {each}", flush=True)
            wrong += now
    return found, len(wrong)


def main() -> None:
    """Run one of the campaigns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("campaign", choices=("inputs", "kills"))
    parser.add_argument("--count", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--command", choices=COMMANDS)
    parser.add_argument("-v", action="store_true")
    asked = parser.parse_args()
    if asked.campaign == "kills":
        if asked.command is None:
            print("kills, and bad ones among them:", *kill_writers())
        for name in COMMANDS if asked.command is None else [asked.command]:
            stops, wrong = stop_command(name, asked.count or 30)
            for (how, ended), times in sorted(stops.items(), key=str):
                print(f"{times:5d}  {name}: {how.value}, status {ended}")
            print(f"{name}: {stops.total()} stops, {wrong} wrong", flush=True)
        return
    top = os.getcwd()
    found, unsound = draw_inputs(asked.count or 1_000, asked.first, asked.kind, verbose=asked.v)
    os.chdir(top)
    for (kind, told), count in sorted(found.items()):
        print(f"{count:5d}  {kind}: {told}")
    print(f"{found.total()} inputs, {unsound} of them unsound")
    sys.exit(bool(unsound))


if __name__ == "__main__":
    main()

"""Hostile inputs and kills, many of them: what `docs/reliability.md` tells of.

`python benchmarks/hostile.py inputs [--count 1000] [--first 0] [--kind KIND]` draws inputs of every kind that is read,
each wrong in one place, gives each to a command in a process of its own with limits on time and memory, and counts what
came of them. An input depends on its number alone, so parts can run at once. `python benchmarks/hostile.py kills`
kills every writer of `tests/reliability/scenarios.py` at each of its file operations; `... stops [--count 30] [--first
0] [--command NAME]` stops whole commands, `count` times each, evenly over their time: killed, a helper of theirs
killed, or Ctrl-C (`tests/reliability/stopped`); `... interrupts` gives every command Ctrl-C at drawn times.

`--journal FILE` keeps each finding as it comes; what a journal holds already is not done again. `... told FILE...`
counts what journals hold.
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.reliability.hostile.forks import import_all, in_fork
from tests.reliability.hostile.inputs import Drawn, make_inputs
from tests.reliability.hostile.journal import Journal, read_journals
from tests.reliability.hostile.kinds import KINDS, draw
from tests.reliability.hostile.running import Judge
from tests.reliability.scenarios import SCENARIOS
from tests.reliability.stopped.commands import COMMANDS, WITH_HELPERS, WRITERS
from tests.reliability.stopped.stopping import How, after, prepare, run_again, stop

Finding = Mapping[str, Any]

#: Stops at one place, each on what the last has left, before the command runs to its end there.
_ROUND = (How.KILL, How.KILL, How.INTERRUPT, How.KILL, How.HELPER)


def draw_inputs(indices: Iterable[int], kind: str | None) -> Iterator[Finding]:
    """Draw hostile inputs, by number; yield what each came to."""
    with tempfile.TemporaryDirectory() as name:
        made, good, folder = (Path(name) / each for each in ("made", "good", "input"))
        in_fork(lambda: make_inputs(made))
        import_all()
        shutil.copytree(made, good)  # a place to run the good inputs in, which the commands write into
        judge = Judge(good)
        for index in indices:
            dice = random.Random(f"{kind or ''}{index}")
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(made, folder)
            os.chdir(folder)
            drawn = _drawn(folder, dice, kind)
            outcome = judge.outcome_of(drawn)
            yield {
                "what": drawn.kind,
                "index": index,
                "told": outcome.told,
                "wrong": [] if outcome.sound else [outcome.said],
                "command": " ".join(drawn.command),
                "change": str(drawn.change),
                "seconds": round(outcome.seconds, 2),
                "peak_mib": outcome.peak_bytes >> 20,
            }


def _drawn(folder: Path, dice: random.Random, kind: str | None) -> Drawn:
    """Spoiling reads tables, which starts threads, so that too is done in a fork, which hands back what it drew."""

    def act() -> Drawn:
        if kind is None:
            return draw(folder, dice)
        command, change = KINDS[kind](folder, dice)
        return Drawn(kind, command, change)

    return in_fork(act)


def kill_writers() -> Iterator[Finding]:
    """Kill every writer at every point; yield what each kill came to."""
    for name, scenario in SCENARIOS.items():
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tests.reliability.killing", name, str(Path(folder) / "work"), "kill", "1"]
            points = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for point in points:
            sound = point["state"] in scenario.allowed and (point["after"], point["left"]) == ("new", [])
            told = "killed" if point["ended"] == signal.SIGKILL else "not killed"
            yield {"what": name, "index": point["point"], "told": told, "wrong": [] if sound else [point]}


def stop_command(name: str, count: int, first: int = 0) -> Iterator[Finding]:
    """Stop a command so often, in rounds; every second round begins where the last one's whole output is."""
    rounds = _ROUND if name in WITH_HELPERS else [How.KILL if each is How.HELPER else each for each in _ROUND]
    with tempfile.TemporaryDirectory() as folder:
        made, work = Path(folder) / "made", Path(folder) / "work"
        prepare(made, live=name == "fill")
        shutil.copytree(made, work)
        started_s = time.monotonic()
        wrong = run_again(work, name)
        lasts_s = time.monotonic() - started_s
        for index in range(first, first + count):
            if index % (2 * len(rounds)) == 0:
                shutil.rmtree(work)
                shutil.copytree(made, work)
            how = rounds[index % len(rounds)]
            at_s = lasts_s * random.Random(f"{name}{index}").random()
            stopped = stop(work, name, how, after(at_s))
            wrong += stopped.wrong
            if index % len(rounds) == len(rounds) - 1 or index == first + count - 1:
                wrong += run_again(work, name)
            told = f"{how.value}, status {stopped.ended}"
            yield {"what": name, "index": index, "told": told, "at_s": round(at_s, 2), "wrong": wrong}
            wrong = []


def interrupt(names: Sequence[str], count: int) -> Iterator[Finding]:
    """Give commands Ctrl-C at drawn times, each in a place of its own."""
    with tempfile.TemporaryDirectory() as folder:
        made, work = Path(folder) / "made", Path(folder) / "work"
        prepare(made, live=True)
        for name in names:
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(made, work)
            started_s = time.monotonic()
            run_again(work, name)
            lasts_s = time.monotonic() - started_s
            for index in range(count):
                shutil.rmtree(work)
                shutil.copytree(made, work)
                at_s = lasts_s * random.Random(f"{name}{index}").random()
                stopped = stop(work, name, How.INTERRUPT, after(at_s))
                told = f"Ctrl-C, status {stopped.ended}"
                yield {"what": name, "index": index, "told": told, "at_s": round(at_s, 2), "wrong": stopped.wrong}


def _asked(options: argparse.Namespace, journal: Journal) -> Iterator[Finding]:
    """What was asked for, but what the journal holds."""
    kept = journal.findings()
    done = {(each["what"], each["index"]) for each in kept}
    if options.campaign == "inputs":
        indices = {each["index"] for each in kept}
        asked = range(options.first, options.first + (options.count or 1_000))
        yield from draw_inputs([index for index in asked if index not in indices], options.kind)
    elif options.campaign == "kills":
        yield from kill_writers()
    elif options.campaign == "stops":
        count = options.count or 30
        for name in WRITERS if options.command is None else [options.command]:
            held = sum((name, index) in done for index in range(options.first, options.first + count))
            held -= held % len(_ROUND)
            if held < count:
                yield from stop_command(name, count - held, options.first + held)
    else:
        names = list(COMMANDS) if options.command is None else [options.command]
        yield from interrupt([name for name in names if (name, 0) not in done], options.count or 5)


def _print(findings: Sequence[Finding]) -> None:
    counted = collections.Counter((each["what"], each["told"]) for each in findings)
    for (what, told), count in sorted(counted.items()):
        print(f"{count:5d}  {what}: {told}")
    if any("seconds" in each for each in findings):
        most = {key: max(each.get(key, 0) for each in findings) for key in ("seconds", "peak_mib")}
        print(f"the longest took {most['seconds']} s, the largest {most['peak_mib']} MiB")
    print(f"{len(findings)} in all, {sum(bool(each['wrong']) for each in findings)} of them unsound")


def main() -> None:
    """Run one of the campaigns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("campaign", choices=("inputs", "kills", "stops", "interrupts", "told"))
    parser.add_argument("journals", nargs="*", type=Path)
    parser.add_argument("--count", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--command", choices=COMMANDS)
    parser.add_argument("--journal", type=Path)
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    if options.campaign == "told":
        found = read_journals(options.journals)
    else:
        journal = Journal(None if options.journal is None else options.journal.absolute())
        found = journal.findings()
        top = os.getcwd()
        for finding in _asked(options, journal):
            journal.add(finding)
            found.append(dict(finding))
            if options.v or finding["wrong"]:
                print(json.dumps(finding), flush=True)
        os.chdir(top)
    _print(found)
    sys.exit(any(each["wrong"] for each in found))


if __name__ == "__main__":
    main()

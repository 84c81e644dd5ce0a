"""How fast a replay is: steps a second of CPU time, beside a bare SimPy hand-off loop, and how its cost grows.

    python benchmarks/replay_speed.py [--repeats 7] [--requests 384]
    python benchmarks/replay_speed.py --tables speed growth memory sweep answers  # all of docs/performance.md

Everything of a table is measured in one run, one after the other and over again, so that a slow spell of the machine
meets all of it. A ratio is the median of the ratios within a round; its interval is the range of the middle half of the
rounds. memory, sweep and answers are whole commands in processes of their own (`command_costs.py`), and take minutes.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import simpy

from simtool.profile.profile import Profile
from simtool.profile.storage import load_profile
from simtool.replay.replay import replay, replay_and_tell
from simtool.replay.scenario import Scenario, SimulatorChoice, recorded_controller
from simtool.replay.workload import Workload, recorded_workload
from simtool.step.placement import BUILT_IN
from simtool.trace.trace import Trace, open_trace

if TYPE_CHECKING:
    from simtool.replay.compiled.replays import CompiledReplays

ROOT = Path(__file__).parents[1]
HAND_OFFS = 20_000
PLACEMENTS = ("static", "this-step", "lag", "lag-overlap")
COMMANDS = ("memory", "sweep", "answers")
#: Compiled replays are of so many times as many requests: they would be over too soon to be timed.
MORE = 8

Case = Callable[[], tuple[int, int]]  # runs something, and returns how many steps and rows it planned


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--requests", type=int, default=384, help="of the drawn workload; batch 1 takes an eighth")
    parser.add_argument("--tables", nargs="+", choices=("speed", "growth", *COMMANDS), default=("speed", "growth"))
    parser.add_argument("--keep", type=Path, help="only replay the drawn workload to disk, into this new folder")
    given = parser.parse_args()
    trace, profile = open_trace(ROOT / "traces/sl7-lag"), load_profile(ROOT / "models/profiles/measured-sl7.json")
    scenario = Scenario(BUILT_IN["lag"], 32, recorded_controller(trace.manifest))
    if given.keep:
        replay_and_tell(given.keep, drawn(trace, given.requests), profile, scenario)
        return
    if "speed" in given.tables:
        with tempfile.TemporaryDirectory() as folder:
            print_speed(cases_of(trace, profile, scenario, given.requests, Path(folder)), given.repeats)
    if "growth" in given.tables:
        print_growth(trace, profile, scenario, given.requests)
    for table in COMMANDS:
        if table in given.tables:
            sys.stdout.flush()
            subprocess.run([sys.executable, ROOT / "benchmarks" / "command_costs.py", table], check=True)


def cases_of(trace: Trace, profile: Profile, scenario: Scenario, requests: int, folder: Path) -> dict[str, Case]:
    """Whole replays by SimPy and by the kernels, and the kernels' first run of a source and further seeds of it."""
    from simtool.replay.compiled.replays import CompiledReplays  # noqa: PLC0415  # a replay to disk holds no compiler

    found: dict[str, Case] = {}
    for batch, asked in ((32, requests), (1, max(requests // 8, 1))):
        served, more = drawn(trace, asked), drawn(trace, MORE * asked)
        kept, _ = replay_and_tell(
            folder / f"batch-{batch}", more, profile, dataclasses.replace(scenario, concurrency=batch)
        )
        for name in PLACEMENTS:
            placed = dataclasses.replace(scenario, placement=BUILT_IN[name], concurrency=batch)
            noisy = dataclasses.replace(placed, noise="residual")
            found |= {
                f"SimPy, {name}, batch {batch}": partial(sizes_of, served, profile, placed, "simpy"),
                f"compiled, all tables, {name}, batch {batch}": partial(sizes_of, more, profile, placed, "compiled"),
                f"compiled, first run, stored source, {name}, batch {batch}": partial(
                    first_run, kept.path, profile, noisy
                ),
                f"compiled, further seed, {name}, batch {batch}": partial(
                    further_seed, CompiledReplays(kept), profile, noisy, count()
                ),
            }
    return found


def print_speed(cases: Mapping[str, Case], repeats: int) -> None:
    for case in cases.values():
        case()  # what only the first run of a process pays is not the steps' cost
    rounds = [(floor(), {name: measured(case) for name, case in cases.items()}) for _ in range(repeats)]
    print(f"bare SimPy hand-off loop: {statistics.median(rate for rate, _ in rounds):,.0f} a second\n")
    print("| replay | steps/s | us a step | rows/s | of the bare loop |\n|---|---|---|---|---|")
    for name in cases:
        rates = [found[name][0] for _, found in rounds]
        shares = [found[name][0] / rate for rate, found in rounds]
        steps_s, rows_s = statistics.median(rates), statistics.median(found[name][1] for _, found in rounds)
        low, high = min(shares), max(shares)
        if repeats > 1:
            low, _, high = statistics.quantiles(shares, n=4)
        print(
            f"| {name} | {steps_s:,.0f} | {1e6 / steps_s:.3g} | {rows_s:,.0f} | {statistics.median(shares):.1%} "
            f"({low:.1%} to {high:.1%}) |"
        )
    print()


def print_growth(trace: Trace, profile: Profile, scenario: Scenario, requests: int) -> None:
    print("| batch | us a step | us a row |\n|---|---|---|")
    for batch in (1, 2, 4, 8, 16, 32, 64):
        served = drawn(trace, max(requests * batch // 64, 8))
        placed = dataclasses.replace(scenario, concurrency=batch)
        steps_s, rows_s = max(measured(partial(sizes_of, served, profile, placed)) for _ in range(3))
        print(f"| {batch} | {1e6 / steps_s:.0f} | {1e6 / rows_s:.1f} |")
    print("\n| requests | steps | CPU s | us a step |\n|---|---|---|---|")
    for asked in (requests // 4, requests, requests * 4):
        served, begun = drawn(trace, asked), time.process_time()
        steps, _ = sizes_of(served, profile, scenario)
        taken = time.process_time() - begun
        print(f"| {asked} | {steps} | {taken:.2f} | {taken / steps * 1e6:.0f} |")
    print()


def drawn(trace: Trace, requests: int) -> Trace:
    """The trace's own requests over and over, with outcomes drawn from it."""
    own = recorded_workload(trace).requests
    asked = tuple(dataclasses.replace(own[i % len(own)], request_id=f"q{i:06d}") for i in range(requests))
    return Workload("benchmark", asked).drawn_from(trace, 0)


def sizes_of(
    served: Trace, profile: Profile, scenario: Scenario, simulator: SimulatorChoice = "simpy"
) -> tuple[int, int]:  # fmt: skip
    """Replay with every table and event."""
    tables = replay(served, profile, scenario, simulator=simulator).tables
    return tables["steps"].height, tables["rows"].height


def first_run(stored: Path, profile: Profile, scenario: Scenario) -> tuple[int, int]:
    """Open a stored trace, read what it holds, plan and time it, as a study does for the first of its replays."""
    from simtool.replay.compiled.replays import CompiledReplays  # noqa: PLC0415  # a replay to disk holds no compiler

    plan = CompiledReplays(open_trace(stored)).run(profile, scenario).plan
    return len(plan.steps.kind), len(plan.rows.place)


def further_seed(
    replays: CompiledReplays, profile: Profile, scenario: Scenario, seeds: Iterator[int]
) -> tuple[int, int]:  # fmt: skip
    """Draw the noise of a seed that was not asked for yet and time the plan that is there, as a study goes on."""
    plan = replays.run(profile, dataclasses.replace(scenario, seed=next(seeds))).plan
    return len(plan.steps.kind), len(plan.rows.place)


def measured(case: Case) -> tuple[float, float]:
    """Steps and rows a second of CPU time."""
    begun = time.process_time()
    steps, rows = case()
    taken = time.process_time() - begun
    return steps / taken, rows / taken


def floor() -> float:
    """Hand-offs a second of a host that launches and a device that works: the least that a step on SimPy costs."""
    env = simpy.Environment()
    launches, results = simpy.Store(env), simpy.Store(env)

    def host() -> Generator[simpy.Event, Any, None]:
        for _ in range(HAND_OFFS):
            yield env.timeout(1)
            launches.put(1)
            yield results.get()

    def device() -> Generator[simpy.Event, Any, None]:
        while True:
            yield launches.get()
            yield env.timeout(1)
            results.put(1)

    env.process(device())
    begun = time.process_time()
    env.run(until=env.process(host()))
    return HAND_OFFS / (time.process_time() - begun)


if __name__ == "__main__":
    main()

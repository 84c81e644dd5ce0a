"""How fast a replay is: steps a second of CPU time, beside a bare SimPy hand-off loop, and how its cost grows.

    python benchmarks/replay_speed.py [--repeats 7] [--requests 384]

Everything is measured in one run, one after the other and over again, so that a slow spell of the machine meets all of
it. A ratio is the median of the ratios within a round; its interval is the range of the middle half of the rounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any

import simpy

from simtool.profile.profile import Profile
from simtool.profile.storage import load_profile
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario, recorded_controller
from simtool.replay.workload import Workload, recorded_workload
from simtool.step.placement import BUILT_IN
from simtool.trace.trace import Trace, open_trace

ROOT = Path(__file__).parents[1]
HAND_OFFS = 20_000
PLACEMENTS = ("static", "this-step", "lag", "lag-overlap")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--requests", type=int, default=384, help="of the drawn workload; batch 1 takes an eighth")
    parser.add_argument("--memory-of", type=int, default=0, metavar="REQUESTS", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.memory_of:
        _memory_of(given.memory_of)
        return
    trace, profile = open_trace(ROOT / "traces/sl7-lag"), load_profile(ROOT / "models/profiles/measured-sl7.json")
    controller = recorded_controller(trace.manifest)
    cases: dict[str, Callable[[], tuple[int, int]]] = {}
    for batch, requests in ((32, given.requests), (1, max(given.requests // 8, 1))):
        served = drawn(trace, requests)
        for name in PLACEMENTS:
            scenario = Scenario(BUILT_IN[name], batch, controller)
            cases[f"{name}, batch {batch}"] = partial(sizes_of, served, profile, scenario)
    for case in cases.values():
        case()  # what only the first run pays is not the steps' cost
    rounds = [(floor(), {name: measured(case) for name, case in cases.items()}) for _ in range(given.repeats)]
    print(f"bare SimPy hand-off loop: {statistics.median(rate for rate, _ in rounds):,.0f} a second\n")
    print("| replay | steps/s | us a step | rows/s | of the bare loop |\n|---|---|---|---|---|")
    for name in cases:
        rates = [found[name][0] for _, found in rounds]
        shares = [found[name][0] / rate for rate, found in rounds]
        steps_s, rows_s = statistics.median(rates), statistics.median(found[name][1] for _, found in rounds)
        low, _, high = statistics.quantiles(shares, n=4)
        print(
            f"| {name} | {steps_s:,.0f} | {1e6 / steps_s:.0f} | {rows_s:,.0f} | {statistics.median(shares):.1%} "
            f"({low:.1%} to {high:.1%}) |"
        )
    print("\n| batch | us a step | us a row |\n|---|---|---|")
    for batch in (1, 2, 4, 8, 16, 32, 64):
        scenario = Scenario(BUILT_IN["lag"], batch, controller)
        served = drawn(trace, max(given.requests * batch // 64, 8))
        runs = [measured(partial(sizes_of, served, profile, scenario)) for _ in range(3)]
        steps_s, rows_s = max(runs)
        print(f"| {batch} | {1e6 / steps_s:.0f} | {1e6 / rows_s:.1f} |")
    print("\n| requests | steps | CPU s | us a step |\n|---|---|---|---|")
    for requests in (given.requests // 4, given.requests, given.requests * 4):
        served, begun = drawn(trace, requests), time.process_time()
        steps, _ = sizes_of(served, profile, Scenario(BUILT_IN["lag"], 32, controller))
        taken = time.process_time() - begun
        print(f"| {requests} | {steps} | {taken:.2f} | {taken / steps * 1e6:.0f} |")
    print("\nresident memory of a replay that goes to disk:")
    for requests in (32, given.requests * 4, given.requests * 16):
        subprocess.run([sys.executable, __file__, "--memory-of", str(requests)], check=True)


def drawn(trace: Trace, requests: int) -> Trace:
    """The trace's own requests over and over, with outcomes drawn from it."""
    own = recorded_workload(trace).requests
    asked = tuple(dataclasses.replace(own[i % len(own)], request_id=f"q{i:06d}") for i in range(requests))
    return Workload("benchmark", asked).drawn_from(trace, 0)


def sizes_of(served: Trace, profile: Profile, scenario: Scenario) -> tuple[int, int]:
    tables = replay(served, profile, scenario).tables
    return tables["steps"].height, tables["rows"].height


def measured(case: Callable[[], tuple[int, int]]) -> tuple[float, float]:
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


def _memory_of(requests: int) -> None:
    """Replay to disk in a process of its own, and print its peak."""
    import tempfile  # noqa: PLC0415  # only in the process that is measured

    from simtool.replay.replay import replay_to  # noqa: PLC0415

    trace, profile = open_trace(ROOT / "traces/sl7-lag"), load_profile(ROOT / "models/profiles/measured-sl7.json")
    scenario = Scenario(BUILT_IN["lag"], 32, recorded_controller(trace.manifest))
    with tempfile.TemporaryDirectory() as folder:
        kept = replay_to(Path(folder) / "kept", drawn(trace, requests), profile, scenario)
        rows = kept.manifest.tables["rows"].rows
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"- {requests} requests, {rows:,} rows: {peak_mb:,.0f} MB")


if __name__ == "__main__":
    main()

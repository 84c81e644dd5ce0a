"""Events per second of the critical path, on a replayed run made as long as asked.

    python benchmarks/critical_path_speed.py --trace traces/sl7-this-step --events 1000000

The trace's decode steps are laid end to end until there are enough events; the aim is 1,000,000 events/s. The best
of `--rounds` is printed beside the median: other work on the machine only ever makes a round slower.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import polars as pl

from simtool.analysis.critical_path.critical_path import critical_path
from simtool.analysis.critical_path.totals import executors_of
from simtool.trace.trace import open_trace


def lengthened(steps: pl.DataFrame, events: pl.DataFrame, count: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Repeat a run, each copy behind the one before, until it holds `count` events."""
    copies = -(-count // events.height)
    span_ns = steps["end_ns"].max() - steps["start_ns"].min() + 1
    number, flows = steps["step"].max() + 1, events["flow"].max() + 1
    times = ("start_ns", "end_ns", "wait_start_ns", "wait_end_ns")

    def shifted(table: pl.DataFrame, copy: int) -> pl.DataFrame:
        moved = [pl.col(name) + copy * span_ns for name in times if name in table.columns]
        moved.append((pl.col("step") + copy * number).cast(pl.Int32))
        if "flow" in table.columns:
            moved.append(pl.col("flow") + copy * flows)
        return table.with_columns(moved)

    return pl.concat(shifted(steps, i) for i in range(copies)), pl.concat(shifted(events, i) for i in range(copies))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    trace = open_trace(options.trace)
    decode = trace.table("steps").filter(pl.col("kind") == "decode")
    mine = trace.table("events").filter(pl.col("step").is_in(decode["step"].implode()))
    steps, events = lengthened(decode, mine, options.events)
    rates = []
    for _ in range(options.rounds):
        start = time.perf_counter()
        path = critical_path(steps, events, executors_of(trace))
        rates.append(events.height / (time.perf_counter() - start))
    lengths = (steps["end_ns"] - steps["start_ns"]).sum()
    assert (path.segments["end_ns"] - path.segments["start_ns"]).sum() == lengths, "the parts do not sum to the steps"
    result = {"events": events.height, "steps": steps.height}
    print(json.dumps({**result, "best_per_s": round(max(rates)), "median_per_s": round(statistics.median(rates))}))


if __name__ == "__main__":
    main()

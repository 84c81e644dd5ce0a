"""How often does what says 95 % hold the truth?

    python benchmarks/interval_coverage.py                         # the table of docs/statistics.md, ten minutes
    python benchmarks/interval_coverage.py --prompts traces/sl7-lag  # prompts drawn anew and replayed, some minutes

Each row is a kind of step series whose mean is known. Three methods: the moving-block bootstrap, blocks of n^(1/3) to
n/4 steps that `compare` once used, the stationary bootstrap with automatic blocks (Politis & White 2004, corrected by
Patton, Politis & White 2009), and the one in `simtool.stats.series`. The last may say that it cannot tell: `given` is
how often it does not, `held` how many of those intervals hold the truth, `wrong` how many of all runs got a wrong one.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.signal import lfilter

from simtool.analysis.comparison.arms import Arm
from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.runs import Run, run_of
from simtool.calibrate.fit import calibrate
from simtool.profile.profile import Profile
from simtool.profile.proxies import with_proxies
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario, recorded_controller
from simtool.stats.interval import LEVEL
from simtool.stats.series import log_interval
from simtool.step.placement import BUILT_IN
from simtool.trace.trace import Trace, open_trace

Reals = NDArray[np.float64]

LENGTHS = (12, 30, 60, 110, 400)
RESAMPLES = 400
LIVE = sorted(Path(__file__).parents[1].glob("traces/*/manifest.json"))


def ar1(rng: np.random.Generator, correlation: float, shape: tuple[int, int]) -> Reals:
    """Stationary autoregressions of variance 1: [series, steps]."""
    noise = rng.standard_normal(shape) * math.sqrt(1 - correlation**2)
    noise[:, 0] /= math.sqrt(1 - correlation**2)
    return np.asarray(lfilter([1.0], [1.0, -correlation], noise, axis=1))


def live(rng: np.random.Generator, shape: tuple[int, int], block: int = 25) -> Reals:
    """Log step times of the shipped live runs, drawn again in blocks of about `block`; a run each in turn."""
    pools = []
    for path in LIVE:
        steps = open_trace(path.parent).table("steps").filter(pl.col("kind") == "decode")
        full = steps.filter(pl.col("batch") == pl.col("batch").max())
        logs = np.log((full["end_ns"] - full["start_ns"]).to_numpy())
        pools.append(logs - logs.mean())
    return np.stack([_blocks(rng, pools[i % len(pools)], shape[1], block) for i in range(shape[0])])


def _blocks(rng: np.random.Generator, values: Reals, count: int, block: float) -> Reals:
    """One stationary-bootstrap draw (Politis & Romano 1994)."""
    anew = rng.random(count) < 1 / block
    anew[0] = True
    starts = rng.integers(0, len(values), count)
    since = np.arange(count) - np.maximum.accumulate(np.where(anew, np.arange(count), 0))
    begun = starts[np.maximum.accumulate(np.where(anew, np.arange(count), 0))]
    return values[(begun + since) % len(values)]


def moving_blocks(values: Reals, rng: np.random.Generator) -> tuple[float, float]:
    """The bootstrap that was: n^(1/3) steps a block, more while the series is still correlated, at most n / 4."""
    count = len(values)
    length, centred = math.ceil(count ** (1 / 3)), values - values.mean()
    power = float(centred @ centred)
    while length < count // 4 and float(centred[length:] @ centred[:-length]) / power > 2 / math.sqrt(count):
        length += 1
    length = max(min(length, count // 4), 1)
    starts = rng.integers(0, count - length + 1, (RESAMPLES, math.ceil(count / length)))
    sums = np.concatenate(([0.0], np.cumsum(values)))
    means = (sums[starts + length] - sums[starts]).sum(axis=1) / (starts.shape[1] * length)
    low, high = np.quantile(means, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)


def politis_white(values: Reals) -> float:
    """The stationary bootstrap's optimal mean block (Patton, Politis & White 2009)."""
    count, centred = len(values), values - values.mean()
    most = min(math.ceil(math.sqrt(count)) + max(5, math.ceil(math.log10(count))), count - 1)
    covariances = np.array([float(centred[k:] @ centred[: count - k]) / count for k in range(most + 1)])
    small = np.abs(covariances[1:] / covariances[0]) < 2 * math.sqrt(math.log10(count) / count)
    run = max(5, math.ceil(math.sqrt(math.log10(count))))
    quiet = [k for k in range(len(small) - run + 1) if small[k : k + run].all()]
    lag = min(2 * max(quiet[0] if quiet else most, 1), most)
    ratio = np.arange(1, lag + 1) / lag
    taper = np.where(ratio <= 0.5, 1.0, 2 * (1 - ratio))
    slope = 2 * float(np.sum(taper * np.arange(1, lag + 1) * covariances[1 : lag + 1]))
    level = float(covariances[0] + 2 * np.sum(taper * covariances[1 : lag + 1]))
    length = (slope**2 / max(level**2, 1e-12)) ** (1 / 3) * count ** (1 / 3)
    return min(max(length, 1.0), 3 * math.sqrt(count), count / 3)


def stationary(values: Reals, rng: np.random.Generator) -> tuple[float, float]:
    """The percentile interval of the stationary bootstrap with automatic blocks."""
    block = politis_white(values)
    means = [float(_blocks(rng, values, len(values), block).mean()) for _ in range(RESAMPLES)]
    low, high = np.quantile(means, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)


def table(runs: int) -> Iterator[str]:
    """The rows of docs/statistics.md."""
    rng = np.random.default_rng(0)
    makers: dict[str, Callable[[tuple[int, int]], Reals]] = {
        f"AR(1), correlation {c}": lambda shape, c=c: ar1(rng, c, shape)  # type: ignore[misc]
        for c in (0.0, 0.3, 0.6, 0.9, 0.97)
    }
    makers["AR(1) of 0.9 under as much white noise"] = lambda shape: ar1(rng, 0.9, shape) + rng.standard_normal(shape)
    makers["steps of the shipped live runs"] = lambda shape: live(rng, shape)
    yield "| steps | n | moving blocks hold | stationary bootstrap holds | here: given | held | wrong of all |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for name, make in makers.items():
        for length in LENGTHS:
            yield _row(name, make((runs, length)), rng)


def _row(name: str, series: Reals, rng: np.random.Generator) -> str:
    old = np.mean([low <= 0 <= high for low, high in (moving_blocks(x, rng) for x in series)])
    few = series[: max(len(series) // 4, 100)]  # the slow one
    automatic = np.mean([low <= 0 <= high for low, high in (stationary(x, rng) for x in few)])
    found = [log_interval(float(x.mean()), x) for x in series]
    given = [each for each in found if each.bounds is not None]
    held = sum(each.contains(0.0) for each in given)
    share = f"{held / len(given):.1%}" if len(given) >= 50 else "-"
    wrong = (len(given) - held) / len(series)
    cells = (name, f"{series.shape[1]}", f"{old:.0%}", f"{automatic:.0%}")
    return f"| {' | '.join(cells)} | {len(given) / len(series):.0%} | {share} | {wrong:.1%} |"


def drawn(source: Trace, rng: np.random.Generator, count: int) -> Trace:
    """The trace's requests drawn again with replacement, each draw a request of its own."""
    queue = source.table("requests").sort("arrival_ns", "admitted_ns", "request_id")
    picks = rng.integers(0, queue.height, count)
    ids = queue["request_id"].to_list()
    base = int(queue["arrival_ns"].to_numpy().min())
    named = [queue[int(pick)].with_columns(request_id=pl.lit(f"d{k:05d}")) for k, pick in enumerate(picks)]
    times = {name: pl.lit(base) + pl.int_range(pl.len()) for name in ("arrival_ns", "admitted_ns")}
    # each draw is a prompt of its own, though the pool is small
    none = pl.lit(None, pl.List(pl.Int32)).alias("prompt_ids")
    tables = {"requests": pl.concat(named).with_columns(none, **times)}
    for name in ("rows", "outcomes"):
        parts = source.table(name).partition_by("request_id", as_dict=True)
        tables[name] = pl.concat(
            parts[(ids[int(pick)],)].with_columns(request_id=pl.lit(f"d{k:05d}")) for k, pick in enumerate(picks)
        )
    return Trace(source.path, source.manifest, tables)


def prompts(path: Path, other: str, runs: int) -> Iterator[str]:
    """Draw prompts, replay static and another placement on them, and ask one run each for the ratio."""
    source = open_trace(path)
    profile = with_proxies(calibrate([source], name=path.name, command="coverage", created="", refits=0))
    rng = np.random.default_rng(0)
    truth = compare(*_arms(drawn(source, rng, 1500), profile, other)).ratio
    yield "| prompts at a time | drawn | given | held |"
    yield "|---:|---:|---:|---:|"
    for count in (16, 32, 64):
        found = [compare(*_arms(drawn(source, rng, count), profile, other)).found for _ in range(runs)]
        given = [each for each in found if each.bounds is not None]
        held = sum(each.contains(truth) for each in given) / max(len(given), 1)
        share = f"{held:.1%}" if given else "-"
        yield f"| {source.manifest.concurrency} | {count} | {len(given) / runs:.0%} | {share} |"


def _arms(source: Trace, profile: Profile, other: str) -> tuple[Arm, Arm]:
    def run(placement: str) -> Run:
        controller = recorded_controller(source.manifest)
        scenario = Scenario(BUILT_IN[placement], source.manifest.concurrency, controller)
        return run_of(replay(source, profile, scenario).trace(source.path))

    one, two = (Arm(name, name, "modeled", (run(name),), ()) for name in ("static", other))
    return one, two


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--prompts", type=Path, help="a trace whose prompts are drawn anew")
    parser.add_argument("--placement", default="lag-overlap")
    given = parser.parse_args()
    for line in prompts(given.prompts, given.placement, given.runs) if given.prompts else table(given.runs):
        print(line, flush=True)


if __name__ == "__main__":
    main()

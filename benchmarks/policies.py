"""Every policy replayed on the traces that ship, against static and the oracle; writes the tables of docs/policies.md.

    python benchmarks/policies.py            # some minutes of CPU
    python benchmarks/policies.py --seeds 2  # a quick look

Gains are of steady tokens per second over static with 95 % intervals from noise and refitted costs. Costs and outcomes
are of one machine and one pair of models: what may carry over is how the policies rank, not the figures.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from simtool.analysis.confidence import quality_by_position
from simtool.analysis.judged_confidence import at_temperatures
from simtool.calibrate.confidence import ConfidenceFit, calibration_error, fit_temperatures
from simtool.calibrate.drafted import DraftedBlocks, blocks_of
from simtool.files.writing import write_text
from simtool.profile.profile import Profile
from simtool.profile.storage import load_profile
from simtool.step.placement import resolve_placement
from simtool.study.settings import settings_of
from simtool.study.sweep import Grid, sweep, with_gain
from simtool.trace.trace import Trace, open_trace

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "policies.md"
BEGIN, END = "<!-- made by benchmarks/policies.py -->", "<!-- end -->"
LENGTHS, CONCURRENCIES = (7, 16), (8, 32)
#: Requests that each slot serves: 32 at 8 at once, 64 at 32.
WAVES = {8: 4, 32: 2}
BASELINE, BOUND = "static", "oracle"
_LATE = "lag-overlap-late"
#: Name -> what it is, by where the decision is made.
HOST = {
    _LATE: "xLLM's scan on confidence one step old",
    f"{_LATE}@dspark-production:budget_age=1,split_age=1": "DSpark's best total, split by the same old confidence",
    "bandit": "one width for all, learned by UCB1 (no confidence)",
    "lag-overlap-late@forecast:objective=ratio": "ours, most tokens per time",
    "lag-overlap-late@forecast:forecast=false": "ours, old confidence taken for this step's",
    "lag-overlap-late@forecast": "ours: this step forecast from the last, each draft worth its time",
}
WAITING = {
    "this-step": "xLLM's scan",
    "dspark-strict": "DSpark's algorithm 1",
    "vllm-ascend": "vllm-ascend's dynamic length (not lossless)",
    "threshold": "stop at the first confidence below a constant",
}
DEVICE = {
    "dspark-production": "DSpark's deployment: total two steps old",
    "sglang-relay": "SGLang's relay: total two steps old, cost looked up",
    "sglang-relay:table=additive": "the same, cost added up",
    "vllm-adaptive": "vLLM's adaptive verification: total one step old",
    "fixed-budget": "a constant share of all drafts",
    "lag-overlap-late@forecast:split_age=0": "ours, total forecast",
}
GROUPS = {
    "on older confidence or none, decided by the host while the device drafts: nothing waits": HOST,
    "on this step's confidence: the host waits for it": WAITING,
    "total on older confidence, shared out on the device by this step's, at no cost: a bound": DEVICE,
}
#: Judged again at calibrated confidence.
CALIBRATED = ("this-step", _LATE, "vllm-adaptive", "lag-overlap-late@forecast")


@dataclass(frozen=True)
class Cell:
    """One setting. gains: a row a policy. warm: policy -> gain and its interval at temperatures over none.

    held_out, fit: the blocks of the requests that `warm` replays, and the temperatures, fitted on others.
    """

    sl: int
    concurrency: int
    gains: pl.DataFrame
    warm: pl.DataFrame
    held_out: DraftedBlocks
    fit: ConfidenceFit

    @property
    def head(self) -> str:
        """What stands above its column."""
        return f"SL {self.sl}, {self.concurrency} at once"


def main() -> None:
    """Replay all, and write the page's tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    cells = [cell for sl in LENGTHS for cell in measured(sl, given.seeds, given.jobs)]
    text = "\n\n".join([_setting(given.seeds), _gains(cells), _warmth(cells), _quality(cells)])
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    write_text(PAGE, f"{before}{BEGIN}\n{text}\n{END}{after}")
    print(f"{PAGE} written")


def measured(sl: int, seeds: int, jobs: int) -> Iterator[Cell]:
    """Yield what was replayed at one block length, a cell a concurrency.

    The trace at 32 serves the requests of the one at 8 and as many more: temperatures are judged on one half and
    fitted on the other.
    """
    profile = load_profile(ROOT / f"models/profiles/measured-sl{sl}.json")
    few, many = open_trace(ROOT / f"traces/sl{sl}-static"), open_trace(ROOT / f"traces/sl{sl}-c32-static")
    more = _without(many, few)
    arms = [BASELINE, *[name for group in GROUPS.values() for name in group], BOUND]
    for concurrency, source, judged, fitted in ((8, few, few, more), (32, many, more, few)):
        fit = fit_temperatures(_known(fitted))
        gains = with_gain(_replayed(source, profile, concurrency, arms, seeds, jobs), BASELINE)
        raw, warm = (
            _replayed(judged, replace(profile, temperatures=each), concurrency, CALIBRATED, seeds, jobs)
            for each in ((), fit.temperatures)
        )
        yield Cell(sl, concurrency, gains, _warmer(raw, warm), _known(judged), fit)


def _replayed(
    source: Trace, profile: Profile, concurrency: int, names: Sequence[str], seeds: int, jobs: int
) -> pl.DataFrame:
    settings = settings_of(source, profile, (concurrency,), WAVES[concurrency], seeds=seeds)
    swept = sweep(Grid(settings, [resolve_placement(name) for name in names]), processes=jobs, progress=lambda _: None)
    if swept.failed:
        raise SystemExit("\n".join(swept.failed))
    return swept.table


def _warmer(raw: pl.DataFrame, warm: pl.DataFrame) -> pl.DataFrame:
    """Gain of each policy with temperatures over the same one without, paired by seed."""
    both = [raw.with_columns(arm=pl.col("placement"), placement=pl.lit("raw")),
            warm.with_columns(arm=pl.col("placement"), placement=pl.lit("warm"))]  # fmt: skip
    parts = pl.concat(both).partition_by("arm", as_dict=True)
    gains = [with_gain(part, "raw").with_columns(arm=pl.lit(arm)) for (arm,), part in parts.items()]
    return pl.concat(gains).filter(placement="warm").with_columns(placement=pl.col("arm"))


def _without(many: Trace, few: Trace) -> Trace:
    """Return a trace with the requests alone whose prompts the other does not serve."""
    seen = few.table("requests").select("prompt_ids")
    requests = many.table("requests").join(seen, on="prompt_ids", how="anti", maintain_order="left")
    kept = requests.select("request_id")
    tables = {
        name: many.table(name).join(kept, on="request_id", how="semi", maintain_order="left")
        for name in ("rows", "outcomes")
    }
    return Trace(many.path, many.manifest, {"requests": requests, **tables})


def _known(trace: Trace) -> DraftedBlocks:
    blocks = blocks_of(trace)
    if blocks is None:
        raise SystemExit(f"{trace.path} holds no confidence")
    return blocks


def _setting(seeds: int) -> str:
    return (
        f"Steady tokens per second over `static`, which verifies every draft: mean of {seeds} seeds, each with noise "
        "and refitted costs of its own, the same under every policy; in brackets the 95 % interval (t)."
    )


def _gains(cells: Sequence[Cell]) -> str:
    lines = _heads("policy | what it is", cells)
    for title, names in GROUPS.items():
        lines.append(f"| *{title}* | |" + " |" * len(cells))
        lines += [_line(f"`{name}` | {words}", [_gain(cell.gains, name) for cell in cells])
                  for name, words in names.items()]  # fmt: skip
    lines.append(_line(f"**`{BOUND}`** | **knows what will be accepted: the bound**",
                       [_gain(cell.gains, BOUND) for cell in cells]))  # fmt: skip
    for words, names in (
        ("where nothing waits", HOST),
        ("where the host waits", WAITING),
        ("with the free split on the device", DEVICE),
    ):
        lines.append(_line(f"left to the bound | from the best {words}", [_left(cell, list(names)) for cell in cells]))
    return "\n".join(lines)


def _left(cell: Cell, names: Sequence[str]) -> str:
    name = max(names, key=lambda each: _row(cell.gains, each)["gain"])
    best = max(0.0, _row(cell.gains, name)["gain"])
    told = f"`{name}`" if best else "`static`"
    return f"{(1 + _row(cell.gains, BOUND)['gain']) / (1 + best) - 1:+.1%} ({told})"


def _warmth(cells: Sequence[Cell]) -> str:
    lines = [
        "What calibrated confidence is worth: steady tokens per second with the temperatures of `calibrate "
        "--confidence` over the same policy without, the same seeds. Replayed on 32 requests, temperatures fitted on "
        "the 32 others:\n",
        *_heads("policy", cells),
        *[_line(f"`{name}`", [_gain(cell.warm, name) for cell in cells]) for name in CALIBRATED],
    ]
    return "\n".join(lines)


def _quality(cells: Sequence[Cell]) -> str:
    return "\n\n".join(_quality_of(cell) for cell in cells if cell.concurrency == CONCURRENCIES[0])


def _quality_of(cell: Cell) -> str:
    lines = [
        f"Confidence on the 32 requests of `traces/sl{cell.sl}-static`, as it is -> at temperatures fitted on the 32 "
        f"others ({len(cell.held_out.match_run)} blocks judged):\n",
        "| k | first k accepted | forecast | AUC | Brier | ECE (15 bins) | temperature |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    blocks, warm = cell.held_out, at_temperatures(cell.held_out, cell.fit)
    positions = zip(
        quality_by_position(blocks),
        quality_by_position(warm),
        blocks.forecasts(),
        warm.forecasts(),
        cell.fit.temperatures,
        strict=True,
    )
    for a, b, said, better, temperature in positions:
        if blocks.positions > 8 and a.position % 3 != 1:
            continue
        judged = blocks.offered >= a.position
        happened = blocks.match_run[judged] >= a.position
        errors = [calibration_error(each[judged], happened) for each in (said, better)]
        area = "-" if a.auc is None else f"{a.auc:.3f}"
        lines.append(
            f"| {a.position} | {a.accepted / a.blocks:.3f} | {a.mean_forecast:.3f} -> {b.mean_forecast:.3f} | {area} | "
            f"{a.brier:.3f} -> {b.brier:.3f} | {errors[0]:.3f} -> {errors[1]:.3f} | {temperature:.2f} |"
        )
    return "\n".join(lines)


def _heads(first: str, cells: Sequence[Cell]) -> list[str]:
    labels = first.count("|") + 1
    return [f"| {first} | {' | '.join(cell.head for cell in cells)} |", "|" + "---|" * labels + "---:|" * len(cells)]


def _row(gains: pl.DataFrame, name: str) -> dict[str, float]:
    return gains.row(by_predicate=pl.col("placement") == resolve_placement(name).name, named=True)


def _gain(gains: pl.DataFrame, name: str) -> str:
    row = _row(gains, name)
    return f"{row['gain']:+.1%} ({row['gain_low']:+.1%} to {row['gain_high']:+.1%})"


def _line(first: str, cells: Sequence[str]) -> str:
    return f"| {first} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()

"""A grid: every placement at every concurrency on every trace (SL) and profile, one row a replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from simtool.errors import UsageError
from simtool.step.placement import Placement
from simtool.study.cells import Cell, Progress, Setting, run_cells

_WRITERS: Mapping[str, Callable[..., object]] = {
    ".parquet": pl.DataFrame.write_parquet,
    ".csv": pl.DataFrame.write_csv,
    ".json": pl.DataFrame.write_json,
}


@dataclass(frozen=True)
class Grid:
    """What to run: every placement under every setting."""

    settings: Sequence[Setting]
    placements: Sequence[Placement]

    def jobs(self) -> list[tuple[Setting, Placement]]:
        """Return one job a setting and placement."""
        return [(setting, placement) for setting in self.settings for placement in self.placements]

    @property
    def replays(self) -> int:
        """How many replays the grid takes."""
        return len(self.placements) * sum(max(len(setting.seeds), 1) for setting in self.settings)


def sweep(grid: Grid, *, processes: int, progress: Progress) -> pl.DataFrame:
    """Run the grid. Columns: trace, profile, sl, algorithm, concurrency, placement, seed, steps, full_batch,
    tokens_per_s, step_ns, tokens_per_step, offered, accepted, acceptance_length, idle_share; all modeled.
    """
    jobs = grid.jobs()
    results = run_cells(jobs, processes=processes, progress=progress)
    rows = [_row(setting, cell) for (setting, _), cells in zip(jobs, results, strict=True) for cell in cells]
    return pl.DataFrame(rows)


def with_gain(table: pl.DataFrame, baseline: str) -> pl.DataFrame:
    """Average over seeds and add `gain`: tokens_per_s over that of the baseline placement, minus 1.

    One row a trace, profile, concurrency and placement. Raises UsageError when the baseline was not run.
    """
    check_baseline(baseline, table["placement"].unique(maintain_order=True).to_list())
    where = ["trace", "profile", "sl", "concurrency"]
    means = table.group_by(*where, "placement", maintain_order=True).agg(pl.col("tokens_per_s", "step_ns").mean())
    base = means.filter(pl.col("placement") == baseline).select(*where, base=pl.col("tokens_per_s"))
    joined = means.join(base, on=where, maintain_order="left")
    return joined.with_columns(gain=pl.col("tokens_per_s") / pl.col("base") - 1).drop("base")


def write_table(table: pl.DataFrame, path: Path) -> None:
    """Write a table as its suffix says: .parquet, .csv or .json; raises UsageError on another."""
    check_suffix(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _WRITERS[path.suffix](table, path)


def check_baseline(baseline: str, placements: Sequence[str]) -> None:
    """Refuse a baseline that is not among the placements of a sweep."""
    if baseline not in placements:
        raise UsageError(f"baseline {baseline!r} is not in the sweep; expected one of {', '.join(placements)}")


def check_suffix(path: Path) -> None:
    """Refuse a suffix that `write_table` cannot write."""
    if path.suffix not in _WRITERS:
        raise UsageError(
            f"{path}: cannot write {path.suffix or 'a table without suffix'}; expected .parquet, .csv or .json"
        )


def seeds_of(count: int) -> tuple[int, ...]:
    """Return the seeds 0 to count - 1; raises UsageError on a negative count."""
    if count < 0:
        raise UsageError(f"--seeds {count}: expected 0 (no noise) or more")
    return tuple(range(count))


def _row(setting: Setting, cell: Cell) -> dict[str, object]:
    manifest = setting.source.manifest
    return {
        "trace": setting.source.path.name,
        "profile": setting.profile.name,
        "sl": manifest.sl,
        "algorithm": manifest.algorithm,
        "concurrency": cell.concurrency,
        "placement": cell.placement,
        "seed": cell.seed,
        "steps": cell.steps,
        "full_batch": cell.full_batch,
        "tokens_per_s": cell.tokens_per_s,
        "step_ns": cell.step_ns,
        "tokens_per_step": cell.tokens_per_step,
        "offered": cell.offered,
        "accepted": cell.accepted,
        "acceptance_length": cell.accepted / cell.sequence_steps + 1,
        "idle_share": cell.idle_share,
    }

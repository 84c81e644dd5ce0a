"""A grid: every placement at every concurrency on every trace (SL) and profile, one row a replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from math import exp
from pathlib import Path

import polars as pl
import polars.selectors as cs

from simtool.errors import SimtoolError, UsageError
from simtool.files.writing import write_bytes
from simtool.replay.caveats import Caveats, merged
from simtool.stats.student import mean_interval
from simtool.step.placement import Placement
from simtool.study.points import PointStore, SweptPoint
from simtool.study.runner import Cell, Job, Progress, Setting, each_job

_WHERE = ("trace", "profile", "sl", "concurrency", "stale_loss")


def _parquet(table: pl.DataFrame) -> bytes:
    table.write_parquet(encoded := BytesIO())
    return encoded.getvalue()


def _csv(table: pl.DataFrame) -> bytes:
    return table.with_columns(cs.string().map_batches(_no_formulas)).write_csv().encode()


def _no_formulas(column: pl.Series) -> pl.Series:
    """A spreadsheet runs a text that starts like a formula; behind a quote it shows it."""
    return column.str.replace(r"^([=+\-@\t\r])", "'$1")


def _json(table: pl.DataFrame) -> bytes:
    return table.write_json().encode()


_ENCODERS: Mapping[str, Callable[[pl.DataFrame], bytes]] = {".parquet": _parquet, ".csv": _csv, ".json": _json}


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


@dataclass(frozen=True)
class Swept:
    """A sweep's table, and what its replays have to say, by trace, profile and concurrency.

    failed: points that have no rows, and why, a sentence each. resumed: replays that an earlier sweep had done.
    """

    table: pl.DataFrame
    caveats: Mapping[str, Caveats]
    failed: tuple[str, ...] = ()
    resumed: int = 0


def sweep(
    grid: Grid, *, processes: int, progress: Progress, store: PointStore | None = None, cluster: str | None = None
) -> Swept:
    """Run the grid. Columns: trace, profile, sl, algorithm, concurrency, stale_loss, placement, seed, refitted, steps,
    full_batch, tokens_per_s, whole_run_tokens_per_s, step_ns, tokens_per_step, offered, accepted, acceptance_length,
    idle_share, extrapolated; all modeled, and (but for the whole run) over decode steps at the full batch, of which
    there are `steps`. trace: as `trace_labels` names it. refitted: the seed has costs of its own. extrapolated: how
    many costs were priced beyond the calibrated sizes.

    store: takes each point when it is done, and has those that need not be done again. A point that cannot be
    replayed is left out and told; raises its error when there is no other. cluster: see `each_job`.
    """
    jobs = grid.jobs()
    labels = trace_labels([setting.source.path for setting in grid.settings])
    points = {i: point for i, job in enumerate(jobs) if store and (point := store.get(*job))}
    resumed = done = sum(len(point.rows) for point in points.values())
    progress(done)
    left = [i for i in range(len(jobs)) if i not in points]
    errors: dict[int, SimtoolError] = {}
    for i, cells in zip(left, each_job([jobs[i] for i in left], processes=processes, cluster=cluster), strict=True):
        if isinstance(cells, SimtoolError):
            errors[i] = cells
            continue
        points[i] = _point(jobs[i][0], cells)
        if store:
            store.put(*jobs[i], points[i])
        done += len(cells)
        progress(done)
    if not points:
        raise next(iter(errors.values()))
    rows = [{**row, "trace": labels[jobs[i][0].source.path]} for i in sorted(points) for row in points[i].rows]
    failed = tuple(f"{_name(labels, jobs[i])}: not replayed: {errors[i]}" for i in sorted(errors))
    table = pl.DataFrame(rows, infer_schema_length=None)
    return Swept(table, _caveats(labels, jobs, points), failed, resumed)


def _point(setting: Setting, cells: Sequence[Cell]) -> SweptPoint:
    return SweptPoint(tuple(_row("", setting, cell) for cell in cells), tuple(cell.caveats for cell in cells))


def _name(labels: Mapping[Path, str], job: Job) -> str:
    setting, placement = job
    return f"{labels[setting.source.path]}, {placement.name} at concurrency {setting.concurrency}"


def trace_labels(paths: Sequence[Path]) -> dict[Path, str]:
    """Return what to call each trace: its folder's name, or its path where two folders have one name."""
    distinct = list(dict.fromkeys(paths))
    names = [path.name for path in distinct]
    return {path: path.name if names.count(path.name) == 1 else str(path) for path in distinct}


def with_gain(table: pl.DataFrame, baseline: str) -> pl.DataFrame:
    """Average over seeds and add `gain`: tokens_per_s over that of the baseline placement, minus 1, paired by seed.

    gain_whole_run: the same of whole-run tokens/s. gain_low, gain_high: the gain's 95 % interval (see
    `analysis.compare`); null with one replay each. One row a trace, profile, concurrency, stale loss and placement,
    where the baseline was replayed too. Raises UsageError when it was nowhere.
    """
    check_baseline(baseline, table["placement"].unique(maintain_order=True).to_list())
    base = table.filter(pl.col("placement") == baseline).select(
        *_WHERE, "seed", base="tokens_per_s", base_whole_run="whole_run_tokens_per_s"
    )
    joined = table.join(base, on=[*_WHERE, "seed"], maintain_order="left", nulls_equal=True)
    joined = joined.drop_nulls("base")
    rows = []
    for _, part in joined.group_by(*_WHERE, "placement", maintain_order=True):
        logs = (part["tokens_per_s"] / part["base"]).log().to_list()
        found = mean_interval(logs, draws=bool(part["refitted"][0]))
        whole = mean_interval((part["whole_run_tokens_per_s"] / part["base_whole_run"]).log().to_list()).mean
        means = {name: part[name].mean() for name in ("tokens_per_s", "step_ns")}
        gains = {"gain": _change(found.mean), "gain_low": _change(found.low), "gain_high": _change(found.high)}
        gains["gain_whole_run"] = _change(whole)
        rows.append({**part.row(0, named=True), **means, **gains})
    kept = [*_WHERE, "placement", "tokens_per_s", "step_ns", "gain", "gain_low", "gain_high", "gain_whole_run"]
    return pl.DataFrame(rows, infer_schema_length=None).select(kept)


def _change(log_ratio: float | None) -> float | None:
    return None if log_ratio is None else exp(log_ratio) - 1


def _caveats(labels: Mapping[Path, str], jobs: Sequence[Job], points: Mapping[int, SweptPoint]) -> dict[str, Caveats]:
    """What the replays of each trace, profile and concurrency have to say together."""
    by_place: dict[str, list[Caveats]] = {}
    for i in sorted(points):
        setting, _ = jobs[i]
        names = dict.fromkeys(
            (labels[setting.source.path], setting.profile.name)
        )  # its own costs have the trace's name
        by_place.setdefault(f"{', '.join(names)}, concurrency {setting.concurrency}", []).extend(points[i].caveats)
    return {place: merged(found) for place, found in by_place.items()}


def write_table(table: pl.DataFrame, path: Path) -> None:
    """Write a table as its suffix says: .parquet, .csv or .json; raises UsageError on another."""
    check_suffix(path)
    write_bytes(path, _ENCODERS[path.suffix](table))


def check_baseline(baseline: str, placements: Sequence[str]) -> None:
    """Refuse a baseline that is not among the placements of a sweep."""
    if baseline not in placements:
        raise UsageError(f"baseline {baseline!r} is not in the sweep; expected one of {', '.join(placements)}")


def check_suffix(path: Path) -> None:
    """Refuse a suffix that `write_table` cannot write."""
    if path.suffix not in _ENCODERS:
        raise UsageError(
            f"{path}: cannot write {path.suffix or 'a table without suffix'}; expected .parquet, .csv or .json"
        )


def seeds_of(count: int) -> tuple[int, ...]:
    """Return the seeds 0 to count - 1; raises UsageError on a negative count."""
    if count < 0:
        raise UsageError(f"--seeds {count}: expected 0 (no noise) or more")
    return tuple(range(count))


def _row(trace: str, setting: Setting, cell: Cell) -> dict[str, object]:
    manifest = setting.source.manifest
    return {
        "trace": trace,
        "profile": setting.profile.name,
        "sl": manifest.sl,
        "algorithm": manifest.algorithm,
        "concurrency": cell.concurrency,
        "stale_loss": setting.stale_loss,
        "placement": cell.placement,
        "seed": cell.seed,
        "refitted": setting.refitted,
        "steps": cell.steps,
        "full_batch": cell.full_batch,
        "tokens_per_s": cell.tokens_per_s,
        "whole_run_tokens_per_s": cell.whole_run_tokens_per_s,
        "step_ns": cell.step_ns,
        "tokens_per_step": cell.tokens_per_step,
        "offered": cell.offered,
        "accepted": cell.accepted,
        "acceptance_length": cell.accepted / cell.sequence_steps + 1,
        "idle_share": cell.idle_share,
        "extrapolated": len(cell.caveats.beyond),
    }

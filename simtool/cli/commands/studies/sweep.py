"""`simtool sweep`: SL x concurrency x placement x seed, into one table and a heat map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simtool.analysis.comparison.headline import baseline_of, disagree
from simtool.cli.options import (
    FINDING,
    ForceFlag,
    JsonFlag,
    OtherModelFlag,
    SimulatorOption,
    VerboseFlag,
    check_controller,
    check_distinct,
    check_output,
)
from simtool.cli.shared import console, study
from simtool.step.placement import PULL_REQUEST_ARMS

if TYPE_CHECKING:
    import polars as pl


def sweep(
    traces: Annotated[list[Path], typer.Argument(metavar="TRACE...", help="Traces to replay, one for each SL.")],
    policy: Annotated[list[str] | None, typer.Option(help="A placement's name or a .toml file; may be repeated; "
                                                          "default: the four arms of the pull request.")] = None,
    profile: study.ProfileOption = None,
    allow_other_model: OtherModelFlag = False,
    predictor: study.Predictor = None,
    change: study.Changes = None,
    concurrency: study.Concurrencies = None,
    seeds: study.Seeds = 0,
    noise_only: study.NoiseOnly = False,
    waves: study.Waves = None,
    stale_loss: Annotated[str, typer.Option(help="What if decisions on old confidence lost these shares of their "
                                                 "accepted drafts, such as 0,0.1,0.2.")] = "0",
    baseline: Annotated[str | None, typer.Option(help="Placement that gains are measured against; default: static, "
                                                      "else this-step, else the first.")] = None,
    out: Annotated[Path | None, typer.Option(help="The table: .parquet, .csv or .json; default: <first trace>.sweep."
                                                  "parquet.")] = None,
    figure: study.FigureOption = None,
    jobs: study.Jobs = None,
    cluster: Annotated[str | None, typer.Option(help="Replay on the workers of a Dask scheduler, such as "
                                                     "tcp://host:8786, instead of here.")] = None,
    simulator: SimulatorOption = None,
    verbose: VerboseFlag = False,
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:  # fmt: skip
    """Replay every placement at every concurrency on every trace, and write one table with a row a replay."""
    from simtool.profile.whatif import check_effect
    from simtool.study.points import PointStore
    from simtool.study.sweep import Grid, check_baseline, check_suffix, with_gain, write_table
    from simtool.study.sweep import sweep as run

    target = out if out is not None else Path(f"{traces[0].name}.sweep.parquet")
    check_suffix(target)
    for path in (target, figure):
        if path is not None:
            check_output(path, force=force)
    check_distinct(traces)
    losses = study.shares(stale_loss)
    arms = study.placements(policy or PULL_REQUEST_ARMS)
    names = [placement.name for placement in arms]
    baseline = baseline_of(names) if baseline is None else baseline
    check_baseline(baseline, names)
    check_controller(arms, {"--predictor": predictor})
    opened = [
        study.open_trace(trace, profile, change or (), predictor, allow_other_model=allow_other_model)
        for trace in traces
    ]
    for _, costs in opened:
        check_effect(costs, change or (), arms)
    concurrencies = study.numbers(concurrency, opened[0][0].manifest.concurrency)
    from simtool.study.settings import settings_of

    settings = [
        replace(setting, stale_loss=loss, simulator=simulator)
        for source, costs in opened
        for setting in settings_of(
            source, costs, concurrencies, waves, seeds=seeds, noise_only=noise_only, predictor=predictor
        )
        for loss in losses
    ]
    grid = Grid(settings, arms)
    points = PointStore(target.with_name(f".{target.name}.points"))
    with console.progress("sweeping", total=grid.replays) as done:
        swept = run(grid, processes=study.processes(jobs), progress=done, store=points, cluster=cluster)
    gains = with_gain(swept.table, baseline)
    write_table(swept.table, target)
    points.remove()
    if swept.resumed:
        console.note(f"{swept.resumed} of them had been done by a sweep that was stopped")
    console.note(f"{swept.table.height} replays written to {target}")
    if figure is not None:
        from simtool.report.figures.figure_file import save_figure
        from simtool.report.figures.heat_map import draw_heat_map, heat_maps

        save_figure(draw_heat_map(heat_maps(gains, baseline)), figure)
        console.note(f"figure written to {figure}")
    _print(gains, f"gain: over {baseline}; {study.basis(settings)}", json=json)
    for place, caveats in swept.caveats.items():
        study.warn(caveats, place, verbose=verbose)
    for line in swept.failed:
        console.note(line)
    if swept.failed:
        raise typer.Exit(FINDING)


def _print(gains: pl.DataFrame, basis: str, *, json: bool) -> None:
    if json:
        console.emit_json([{"origin": "replayed", "basis": basis, **row} for row in gains.to_dicts()])
        return
    from simtool.report.terminal.tables import table
    from simtool.units import format_ns

    rows = [
        (
            *(row["trace"], str(row["sl"]), str(row["concurrency"]), f"{row['stale_loss']:.0%}", row["placement"]),
            *(f"{row['tokens_per_s']:.0f}", format_ns(row["step_ns"]), f"{row['gain']:+.1%}", _interval(row)),
        )
        for row in gains.iter_rows(named=True)
    ]
    heads = (
        *("trace", "SL", "concurrency", "stale loss", "placement"),
        *("steady tok/s", "full-batch step", "gain", "95 % interval"),
    )
    console.show(table(f"modeled, {basis}", heads, rows, numbers_from=5))
    for row in gains.iter_rows(named=True):
        if disagree(row["gain"], row["gain_whole_run"]):
            console.say(
                f"{row['trace']}, concurrency {row['concurrency']}: over the whole run {row['placement']} points the "
                f"other way: {row['gain_whole_run']:+.1%}"
            )


def _interval(row: Mapping[str, Any]) -> str:
    return "-" if row["gain_low"] is None else f"{row['gain_low']:+.1%} to {row['gain_high']:+.1%}"

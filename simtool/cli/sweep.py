"""`simtool sweep`: SL x concurrency x placement x seed, into one table and a heat map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli import console, study
from simtool.cli.options import ForceFlag, JsonFlag, check_output
from simtool.step.placement import PULL_REQUEST_ARMS

if TYPE_CHECKING:
    import polars as pl


def sweep(
    traces: Annotated[list[Path], typer.Argument(metavar="TRACE...", help="Bundles to replay, one for each SL.")],
    policy: Annotated[list[str] | None, typer.Option(help="A placement's name or a .toml file; may be repeated; "
                                                          "default: the four arms of the pull request.")] = None,
    profile: study.ProfileOption = None,
    change: study.Changes = None,
    concurrency: study.Concurrencies = None,
    seeds: study.Seeds = 1,
    waves: study.Waves = None,
    baseline: Annotated[str, typer.Option(help="Placement that gains are measured against.")] = "this-step",
    out: Annotated[Path | None, typer.Option(help="The table: .parquet, .csv or .json; default: <first trace>.sweep."
                                                  "parquet.")] = None,
    figure: study.FigureOption = None,
    jobs: study.Jobs = None,
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:  # fmt: skip
    """Replay every placement at every concurrency on every trace, and write one table with a row a replay."""
    from simtool.calibrate.whatif import check_effect
    from simtool.study.sweep import Grid, check_baseline, check_suffix, with_gain, write_table
    from simtool.study.sweep import sweep as run

    target = out if out is not None else Path(f"{traces[0].name}.sweep.parquet")
    check_suffix(target)
    for path in (target, figure):
        if path is not None:
            check_output(path, force=force)
    arms = study.placements(policy or PULL_REQUEST_ARMS)
    check_baseline(baseline, [placement.name for placement in arms])
    opened = [study.open_trace(trace, profile, change or ()) for trace in traces]
    for _, costs in opened:
        check_effect(costs, change or (), arms)
    concurrencies = study.numbers(concurrency, opened[0][0].manifest.concurrency)
    settings = [
        setting for source, costs in opened for setting in study.settings_of(source, costs, concurrencies, seeds, waves)
    ]
    grid = Grid(settings, arms)
    with console.progress("sweeping", total=grid.replays) as done:
        table = run(grid, processes=study.processes(jobs), progress=done)
    gains = with_gain(table, baseline)
    write_table(table, target)
    console.note(f"{table.height} replays written to {target}")
    if figure is not None:
        from simtool.report.figure_file import save_figure
        from simtool.report.heat_map import draw_heat_map, heat_maps

        save_figure(draw_heat_map(heat_maps(gains, baseline)), figure)
        console.note(f"figure written to {figure}")
    _print(gains, json=json)


def _print(gains: pl.DataFrame, *, json: bool) -> None:
    if json:
        console.emit_json(gains.to_dicts())
        return
    from simtool.report.terminal import table
    from simtool.units import format_ns

    rows = [
        (trace, str(sl), str(concurrency), placement, f"{tokens:.0f}", format_ns(step_ns), f"{gain:+.1%}")
        for trace, sl, concurrency, placement, tokens, step_ns, gain in gains.select(
            "trace", "sl", "concurrency", "placement", "tokens_per_s", "step_ns", "gain"
        ).iter_rows()
    ]
    heads = ("trace", "SL", "concurrency", "placement", "tok/s", "step", "gain")
    console.show(table("modeled, at full occupancy", heads, rows, numbers_from=4))

"""`simtool sweep`: SL x concurrency x placement x seed, into one table and a heat map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
from simtool.cli.shared.costs import modeled_on
from simtool.cli.shared.swept_live import SweptLive, swept_live
from simtool.step.placement import PULL_REQUEST_ARMS

if TYPE_CHECKING:
    import polars as pl

    from simtool.profile.profile import Profile
    from simtool.progress import Expected
    from simtool.replay.caveats import Caveats
    from simtool.study.sweep import Grid
    from simtool.trace.trace import Trace


def sweep(
    traces: study.TraceOfEachSl,
    policy: Annotated[list[str] | None, typer.Option(help="A placement's name or a .toml file; may be repeated; "
                                                          "default: static, this-step, lag and lag-overlap.")] = None,
    profile: study.ProfileOption = None,
    allow_other_model: OtherModelFlag = False,
    predictor: study.Predictor = None,
    draft_ms: study.DraftMs = None,
    change: study.Changes = None,
    concurrency: study.Concurrencies = None,
    seeds: study.GridSeeds = 0,
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
    check_controller(arms, {"--predictor": predictor, "--draft-ms": draft_ms})
    opened = [
        study.open_trace(
            trace,
            profile,
            change or (),
            predictor,
            refits=study.refits_for(seeds, noise_only=noise_only),
            allow_other_model=allow_other_model,
        )
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
            source,
            costs,
            concurrencies,
            waves,
            seeds=seeds,
            noise_only=noise_only,
            controller=study.controller(predictor, draft_ms),
        )
        for loss in losses
    ]
    grid = Grid(settings, arms)
    points = PointStore(target.with_name(f".{target.name}.points"))
    with console.progress("sweeping", grid.replays, _expected(grid, jobs, cluster)) as done:
        swept = run(grid, processes=study.processes(jobs), progress=done, store=points, cluster=cluster)
    gains = with_gain(swept.table, baseline)
    write_table(swept.table, target)
    points.remove()
    if swept.resumed:
        console.after(f"{swept.resumed} of them had been done by a sweep that was stopped")
    console.after(f"{swept.table.height} replays written to {target}")
    if figure is not None:
        _draw(gains, baseline, figure)
    basis = study.basis(settings)
    known = swept_live(settings, arms, gains)
    answer = f"{known.opening}{_opened_with(opened, gains, baseline, swept.caveats)}"
    if json:
        from simtool.cli.documents.of_studies import GainRecord, SweepDocument
        from simtool.cli.documents.record import record

        document = SweepDocument(
            origin="replayed",
            table=str(target),
            basis=basis,
            baseline=baseline,
            answer=answer,
            gains=[record(GainRecord, row, live=known.record_of(row)) for row in gains.to_dicts()],
            warnings=[f"{place}: {line}" for place, caveats in swept.caveats.items() for line in caveats.lines()],
            failed=list(swept.failed),
        )
        console.emit(document)
    else:
        _print(gains, answer, study.ranges_over(settings[0]), known)
        console.after(f"modeled, {basis}")
    for place, caveats in swept.caveats.items():
        study.warn(caveats, place, verbose=verbose)
    for line in swept.failed:
        console.after(line)
    if swept.failed:
        raise typer.Exit(FINDING)


def _expected(grid: Grid, jobs: int | None, cluster: str | None) -> Expected | None:
    """What the grid takes here; how many workers a cluster has is not known."""
    from simtool.study.settings import expect

    if cluster is not None:
        return None
    return expect([(setting, len(grid.placements)) for setting in grid.settings], study.processes(jobs))


def _draw(gains: pl.DataFrame, baseline: str, figure: Path) -> None:
    from simtool.report.figures.figure_file import save_figure
    from simtool.report.figures.heat_map import draw_heat_map, heat_maps

    save_figure(draw_heat_map(heat_maps(gains, baseline)), figure)
    console.after(f"figure written to {figure}")


def _print(gains: pl.DataFrame, answer: str, over: str, known: SweptLive) -> None:
    """The answer, then one table; what is the same in every row is said above it, once."""
    from simtool.report.terminal.tables import table
    from simtool.units import format_ns

    found = list(gains.iter_rows(named=True))
    console.say(answer, style="bold")
    keys = [(head, [write(row[key]) for row in found]) for key, head, write in _KEYS]
    fixed = ", ".join(f"{head} {texts[0]}" for head, texts in keys if len(set(texts)) == 1)
    varying = [(head, texts) for head, texts in keys if len(set(texts)) > 1]
    live = [known.text_of(row) for row in found]
    told = any(text != "-" for text in live)
    rows = [
        (
            *(texts[index] for _, texts in varying),
            *(row["placement"], f"{row['tokens_per_s']:,.0f}", format_ns(row["step_ns"])),
            *((live[index],) if told else ()),
            *(f"{row['gain']:+.1%}", _interval(row)),
        )
        for index, row in enumerate(found)
    ]
    heads = (
        *(head for head, _ in varying),
        "placement",
        "tok/s",
        "step (full)",
        *(("live",) if told else ()),
        "gain",
        f"95 % over {over}",
    )
    shown = [row if any(row[-1] != "-" for row in rows) else row[:-1] for row in rows]
    console.show(table(fixed, heads[: len(shown[0])], shown, numbers_from=len(varying) + 1))
    for row in found:
        if disagree(row["gain"], row["gain_whole_run"]):
            console.say(
                f"{row['trace']}, concurrency {row['concurrency']}: over the whole run {row['placement']} points the "
                f"other way: {row['gain_whole_run']:+.1%}"
            )


#: What tells rows of the grid apart: key, head, how it is written.
_KEYS: Sequence[tuple[str, str, Callable[[Any], str]]] = (
    ("trace", "trace", str),
    ("profile", "costs", str),
    ("sl", "SL", str),
    ("concurrency", "conc", str),
    ("stale_loss", "stale loss", "{:.0%}".format),
)


def _answer(rows: Sequence[Mapping[str, Any]], baseline: str) -> str:
    """Which placement leads at how many points, and the closest that any other comes to the baseline."""
    points: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        points.setdefault(tuple(row[key] for key, _, _ in _KEYS), []).append(row)
    leads = Counter(max(found, key=lambda row: row["gain"])["placement"] for found in points.values())
    count = f" at {{}} of {len(points)} points" if len(points) > 1 else ""
    led = "; ".join(f"{name} is fastest{count.format(times)}" for name, times in leads.most_common())
    others = [row for row in rows if row["placement"] != baseline]
    if not others:
        return led
    best = max(others, key=lambda row: row["gain"])
    word = "the closest" if best["gain"] < 0 else "the largest lead"
    return f"{led}; {word} over {baseline}: {best['placement']} {best['gain']:+.1%}"


def _opened_with(
    opened: Sequence[tuple[Trace, Profile]], gains: pl.DataFrame, baseline: str, caveats: Mapping[str, Caveats]
) -> str:
    modeled = " or ".join(dict.fromkeys(modeled_on(costs, source) for source, costs in opened))
    return f"{modeled}: {_answer(list(gains.iter_rows(named=True)), baseline)}{_extrapolated(caveats)}"


def _extrapolated(caveats: Mapping[str, Caveats]) -> str:
    """How many settings were priced beyond the calibrated sizes, and how far off such costs were; empty: none was."""
    from simtool.analysis.comparison.extrapolation import extrapolation

    far = [found for each in caveats.values() if (found := extrapolation(each.beyond)) is not None]
    if not far:
        return ""
    worst = max(far, key=lambda each: each.stretch.times)
    where = f" at {len(far)} of {len(caveats)} settings" if len(caveats) > 1 else ""
    return f"; {worst.where}{where}: direction only, {worst.known}"


def _interval(row: Mapping[str, Any]) -> str:
    if row["gain_low"] is None or row["gain_low"] == row["gain_high"] == 0:
        return "-"
    return f"{row['gain_low']:+.1%} to {row['gain_high']:+.1%}"

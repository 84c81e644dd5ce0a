"""`simtool break-even`: how much acceptance a lag may cost before it stops paying."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli.options import ForceFlag, JsonFlag, OtherModelFlag, SimulatorOption, VerboseFlag, check_output
from simtool.cli.shared import console, study
from simtool.errors import UsageError
from simtool.units import NS_PER_US

if TYPE_CHECKING:
    from simtool.stats.interval import Interval
    from simtool.study.break_even import BreakEven


def break_even(
    trace: study.TraceArgument,
    policy: Annotated[str, typer.Option(help="A lag placement's name or a .toml file.")] = "lag-overlap",
    profile: study.ProfileOption = None,
    allow_other_model: OtherModelFlag = False,
    predictor: study.Predictor = None,
    decision_us: Annotated[str, typer.Option(help="Costs of a decision to try, in us.")] = "0,50,100,200,500,1000,2000",
    concurrency: study.Concurrencies = None,
    seeds: study.Seeds = 0,
    noise_only: study.NoiseOnly = False,
    waves: study.Waves = None,
    figure: study.FigureOption = None,
    jobs: study.Jobs = None,
    simulator: SimulatorOption = None,
    verbose: VerboseFlag = False,
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:
    """Print the loss of tokens per step that a lag can afford against this-step, beside the loss that it has."""
    if figure is not None:
        check_output(figure, force=force)
    (lagged,) = study.placements([policy])
    if not lagged.lag_steps:
        raise UsageError(f"--policy {policy} has no lag; break-even compares a lag placement with this-step")
    source, costs = study.open_trace(trace, profile, (), predictor, allow_other_model=allow_other_model)
    study.check_priced(costs, lagged, ["decide"])
    concurrencies = study.numbers(concurrency, source.manifest.concurrency)
    from simtool.study.settings import settings_of

    asked = settings_of(source, costs, concurrencies, waves, seeds=seeds, noise_only=noise_only, predictor=predictor)
    settings = [replace(setting, simulator=simulator) for setting in asked]
    decisions_ns = [us * NS_PER_US for us in study.numbers(decision_us, 0)]
    if min(decisions_ns) < 0:
        raise UsageError(f"--decision-us {decision_us}: expected times of 0 or more")
    from simtool.study.break_even import break_even as run
    from simtool.study.break_even import caveats_of

    total = 2 * len(settings) * len(decisions_ns) * max(seeds, 1)
    with console.progress("break even", total=total) as done:
        points = run(settings, decisions_ns, lagged, processes=study.processes(jobs), progress=done)
    if figure is not None:
        from simtool.report.figures.break_even import draw_break_even
        from simtool.report.figures.figure_file import save_figure

        save_figure(draw_break_even(points), figure)
        console.note(f"figure written to {figure}")
    _print(points, lagged.name, study.basis(settings), json=json)
    study.warn(caveats_of(points), verbose=verbose)


def _print(points: list[BreakEven], name: str, basis: str, *, json: bool) -> None:
    if json:
        console.emit_json([_as_json(point, basis) for point in points])
        return
    from simtool.report.terminal.tables import table
    from simtool.units import format_ns

    rows = [
        (
            str(point.concurrency),
            format_ns(point.decision_ns),
            _share(point.affordable),
            _share(point.lost),
            "pays" if point.pays else "does not pay",
        )
        for point in points
    ]
    heads = ("concurrency", "a decision costs", "can afford to lose", "loses", "the lag")
    console.show(table(f"modeled: {name} against this-step, tokens per step", heads, rows, numbers_from=2))
    console.note(f"modeled, {basis}")


def _as_json(point: BreakEven, basis: str) -> dict[str, object]:
    from dataclasses import asdict

    told = {"origin": "replayed", "basis": basis, "warnings": point.caveats.lines()}
    figures = {name: value for name, value in asdict(point).items() if name != "caveats"}
    return {**told, **figures, "pays": point.pays}


def _share(found: Interval) -> str:
    if found.bounds is None:
        return f"{found.mean:+.2%}"
    low, high = found.bounds
    return f"{found.mean:+.2%} ({low:+.2%} to {high:+.2%})"

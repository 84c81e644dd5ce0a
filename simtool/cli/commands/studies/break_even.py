"""`simtool break-even`: how much acceptance a lag may cost before it stops paying."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli.options import (
    ForceFlag,
    JsonFlag,
    OtherModelFlag,
    SimulatorOption,
    VerboseFlag,
    check_controller,
    check_output,
)
from simtool.cli.shared import console, study
from simtool.cli.shared.costs import modeled_on
from simtool.cli.shared.differences import as_records
from simtool.errors import UsageError
from simtool.step.placement import NAMED
from simtool.units import NS_PER_US, format_ns

if TYPE_CHECKING:
    from simtool.analysis.comparison.judged import KnownLive
    from simtool.stats.interval import Interval
    from simtool.study.break_even import BreakEven

_PAYS, _COSTS = "\N{CHECK MARK}", "\N{BALLOT X}"


def break_even(
    trace: study.TraceArgument,
    policy: Annotated[str, typer.Option(help="A lag placement's name or a .toml file.")] = "lag-overlap",
    profile: study.ProfileOption = None,
    allow_other_model: OtherModelFlag = False,
    predictor: study.Predictor = None,
    draft_ms: study.DraftMs = None,
    decision_us: Annotated[str, typer.Option(help="Costs of a decision to try, in us.")] = "0,50,100,200,500,1000,2000",
    concurrency: study.Concurrencies = None,
    seeds: study.GridSeeds = 0,
    noise_only: study.NoiseOnly = False,
    waves: study.Waves = None,
    figure: study.FigureOption = None,
    jobs: study.Jobs = None,
    simulator: SimulatorOption = None,
    verbose: VerboseFlag = False,
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:
    """Say whether a lag pays: the tokens that older confidence loses it, and what its shorter step makes up for."""
    if figure is not None:
        check_output(figure, force=force)
    (lagged,) = study.placements([policy])
    if not lagged.lag_steps:
        raise UsageError(f"--policy {policy} has no lag; break-even compares a lag placement with this-step")
    check_controller([lagged], {"--predictor": predictor, "--draft-ms": draft_ms})
    refits = study.refits_for(seeds, noise_only=noise_only)
    source, costs = study.open_trace(trace, profile, (), predictor, refits=refits, allow_other_model=allow_other_model)
    study.check_priced(costs, lagged, ["decide"])
    concurrencies = study.numbers(concurrency, source.manifest.concurrency)
    from simtool.study.settings import settings_of

    asked = settings_of(
        source,
        costs,
        concurrencies,
        waves,
        seeds=seeds,
        noise_only=noise_only,
        controller=study.controller(predictor, draft_ms),
    )
    settings = [replace(setting, simulator=simulator) for setting in asked]
    decisions_ns = [us * NS_PER_US for us in study.numbers(decision_us, 0)]
    if min(decisions_ns) < 0:
        raise UsageError(f"--decision-us {decision_us}: expected times of 0 or more")
    from simtool.study.break_even import break_even as run
    from simtool.study.break_even import caveats_of
    from simtool.study.settings import expect

    total = 2 * len(settings) * len(decisions_ns) * max(seeds, 1)
    known = expect([(setting, 2 * len(decisions_ns)) for setting in settings], study.processes(jobs))
    with console.progress("break even", total, known) as done:
        points = run(settings, decisions_ns, lagged, processes=study.processes(jobs), progress=done)
    if figure is not None:
        from simtool.report.figures.break_even import draw_break_even
        from simtool.report.figures.figure_file import save_figure

        save_figure(draw_break_even(points), figure)
        console.after(f"figure written to {figure}")
    basis = study.basis(settings)
    arms = [NAMED["this-step"], lagged]
    lives = {setting.concurrency: study.known_live(setting, arms) for setting in settings}
    if json:
        from simtool.cli.documents.of_studies import BreakEvenDocument, BreakEvenRecord
        from simtool.cli.documents.record import record

        warnings = caveats_of(points).lines()
        records = [record(BreakEvenRecord, point) for point in points]
        live = {str(concurrency): as_records(found) for concurrency, found in lives.items() if found}
        document = BreakEvenDocument(
            origin="replayed", basis=basis, placement=lagged.name, points=records, live=live, warnings=warnings
        )
        console.emit(document)
    else:
        modeled = f"{_live(lives)}{modeled_on(costs, source, caveats_of(points))}"
        _print(points, lagged.name, modeled, study.ranges_over(settings[0]))
        console.after(f"modeled, {basis}")
    study.warn(caveats_of(points), verbose=verbose)


def _live(lives: Mapping[int, KnownLive | None]) -> str:
    """What live runs showed, at each concurrency where there were any."""
    from simtool.report.terminal.live_first import live_first

    said = {concurrency: live_first(live, {}) for concurrency, live in lives.items() if live is not None}
    return "".join(f"concurrency {at}, {text}" if len(lives) > 1 else text for at, text in said.items())


def _print(points: list[BreakEven], name: str, modeled: str, over: str) -> None:
    from simtool.report.terminal.tables import table

    console.say(f"{modeled}: {_answer(points, name)}", style="bold")
    known = any(point.affordable.bounds for point in points)
    rows = [
        (
            *(str(point.concurrency), format_ns(point.decision_ns)),
            *(text for share in (point.lost, point.affordable) for text in (_share(share), _ends(share))[: 1 + known]),
            _PAYS if point.pays else _COSTS,
        )
        for point in points
    ]
    ends = ("95 %",) if known else ()
    heads = ("conc", "decision", "loses", *ends, "may lose", *ends, "pays")
    title = f"shares of a step's tokens, {name} against this-step, by what a decision costs"
    title += f"; 95 % over {over}" if known else ""
    console.show(table(title, heads, rows, numbers_from=1))


def _answer(points: list[BreakEven], name: str) -> str:
    """From which cost of a decision on the lag pays, at each concurrency."""
    told = []
    for concurrency in dict.fromkeys(point.concurrency for point in points):
        here = sorted((each for each in points if each.concurrency == concurrency), key=lambda each: each.decision_ns)
        paying = [each for each in here if each.pays]
        ends = f"{format_ns(here[0].decision_ns)} to {format_ns(here[-1].decision_ns)}"
        if not paying:
            pays = f"does not pay, whatever a decision costs from {ends}"
        elif len(paying) == len(here):
            pays = f"pays, whatever a decision costs from {ends}"
        else:
            pays = f"pays where a decision costs {', '.join(format_ns(each.decision_ns) for each in paying)}"
        told.append(
            f"at concurrency {concurrency} {name} {pays}: against this-step it loses {_range(here, _lost)} of a step's "
            f"tokens, and its step makes up for {_range(here, _affordable)}"
        )
    sure = [p for p in points if p.affordable.bounds and p.lost.bounds]
    overlap = any(_overlap(point) for point in sure)
    return "; ".join(told) + ("; their intervals overlap, so it is not sure" if overlap else "")


def _range(points: list[BreakEven], read: Callable[[BreakEven], Interval]) -> str:
    """From the least to the most of the points, in percent; one figure where they round to the same."""
    means = [read(point).mean * 100 for point in points]
    least, most = f"{min(means):.1f}", f"{max(means):.1f}"
    return f"{most} %" if least == most else f"{least} to {most} %"


def _lost(point: BreakEven) -> Interval:
    return point.lost


def _affordable(point: BreakEven) -> Interval:
    return point.affordable


def _overlap(point: BreakEven) -> bool:
    first, second = point.affordable.bounds, point.lost.bounds
    return first is not None and second is not None and first[0] <= second[1] and second[0] <= first[1]


def _share(found: Interval) -> str:
    return f"{found.mean * 100:.2f} %"


def _ends(found: Interval) -> str:
    return found.text(lambda share: f"{share * 100:.2f} %")

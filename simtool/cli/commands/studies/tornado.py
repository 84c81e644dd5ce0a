"""`simtool tornado`: what each op is worth: free, halved, or in its best other place."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from simtool.study.sensitivity import OpSensitivity, Sensitivity


_PARTS = (
    "free is the work's own time and what follows: more where what runs behind it gets quicker too, less where it ran "
    "beside something that bounds the step"
)


def tornado(
    trace: study.TraceArgument,
    policy: Annotated[str, typer.Option(help="A placement's name or a .toml file.")] = "lag-overlap",
    profile: study.ProfileOption = None,
    allow_other_model: OtherModelFlag = False,
    predictor: study.Predictor = None,
    change: study.Changes = None,
    concurrency: Annotated[int | None, typer.Option(help="Requests at once; default: the trace's.")] = None,
    waves: study.Waves = None,
    figure: study.FigureOption = None,
    jobs: study.Jobs = None,
    simulator: SimulatorOption = None,
    verbose: VerboseFlag = False,
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:  # fmt: skip
    """Print the step time that each op would give back if it were free, halved, or moved to its best other place."""
    if figure is not None:
        check_output(figure, force=force)
    (placement,) = study.placements([policy])
    check_controller([placement], {"--predictor": predictor})
    from simtool.profile.whatif import check_effect

    source, costs = study.open_trace(trace, profile, change or (), predictor, allow_other_model=allow_other_model)
    study.check_priced(costs, placement)
    check_effect(costs, change or (), [placement])
    wanted = source.manifest.concurrency if concurrency is None else concurrency
    from simtool.study.settings import settings_of

    (setting,) = settings_of(source, costs, [wanted], waves, predictor=predictor)
    from simtool.study.sensitivity import count_jobs
    from simtool.study.sensitivity import sensitivity as run

    with console.progress("what if", total=count_jobs(placement)) as done:
        found = run(replace(setting, simulator=simulator), placement, processes=study.processes(jobs), progress=done)
    if figure is not None:
        from simtool.report.figures.figure_file import save_figure
        from simtool.report.figures.sensitivity import draw_sensitivity

        save_figure(draw_sensitivity(found), figure)
        console.note(f"figure written to {figure}")
    _print(found, study.basis([setting]), json=json)
    study.warn(found.caveats, verbose=verbose)


def _print(found: Sensitivity, basis: str, *, json: bool) -> None:
    if json:
        facts = {"placement": found.placement, "concurrency": found.concurrency, "step_ns": found.step_ns}
        told = {"origin": "replayed", "basis": basis, "warnings": found.caveats.lines()}
        console.emit_json({**told, **facts, "bars": [_as_json(bar) for bar in found.bars]})
        return
    from simtool.report.terminal.tables import table
    from simtool.units import format_ns

    rows = [
        (
            bar.name,
            bar.lane,
            format_ns(round(bar.free_ns)),
            format_ns(round(bar.own_ns)),
            format_ns(round(bar.follows_ns)),
            format_ns(round(bar.halved_ns)),
            "-" if bar.moved_ns is None else format_ns(round(bar.moved_ns)),
            "" if bar.moved_to is None or bar.moved_ns is None or bar.moved_ns <= 0 else bar.moved_to.where,
        )
        for bar in found.bars
    ]
    title = (
        f"modeled: {found.placement}, concurrency {found.concurrency}, mean full-batch step {format_ns(found.step_ns)}"
    )
    heads = ("work", "lane", "free", "own time", "what follows", "halved", "moved", "where to")
    console.show(table(title, heads, rows, numbers_from=2))
    console.note(_PARTS)
    console.note(f"modeled, {basis}")


def _as_json(bar: OpSensitivity) -> dict[str, object]:
    moved = bar.moved_to.placement.to_dict() if bar.moved_to else None
    return {
        "name": bar.name,
        "lane": bar.lane,
        "free_ns": bar.free_ns,
        "own_ns": bar.own_ns,
        "follows_ns": bar.follows_ns,
        "halved_ns": bar.halved_ns,
        "moved_ns": bar.moved_ns,
        "moved_to": moved,
    }

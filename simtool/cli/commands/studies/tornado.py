"""`simtool tornado`: what each op is worth: free, halved, or in its best other place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.analysis.comparison.headline import BASELINE
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
from simtool.step.placement import NAMED, Placement

if TYPE_CHECKING:
    from simtool.cli.documents.of_studies import TornadoDocument
    from simtool.study.sensitivity import OpSensitivity, Sensitivity
    from simtool.trace.trace import Trace

#: Of a step: less is told under --verbose only.
_TELLING = 0.005


def tornado(
    trace: study.TraceArgument,
    policy: Annotated[str | None, typer.Option(help="A placement's name or a .toml file; default: the one that the "
                                                    "trace ran, or static where it tells of none.")] = None,
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
    """Print what each op is worth, in step time and tokens/s: free, halved, unblocked, or in its best other place."""
    if figure is not None:
        check_output(figure, force=force)
    from simtool.profile.whatif import check_effect

    source, costs = study.open_trace(trace, profile, change or (), predictor, allow_other_model=allow_other_model)
    placement = _placement(policy, source)
    check_controller([placement], {"--predictor": predictor})
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
        console.after(f"figure written to {figure}")
    basis = study.basis([setting])
    if json:
        console.emit(_document(found, basis))
    else:
        _print(found, modeled_on(costs, source), default=policy is None, verbose=verbose)
        console.after(f"modeled, {basis}")
    study.warn(found.caveats, verbose=verbose)


def _placement(policy: str | None, source: Trace) -> Placement:
    """The one asked for, else the trace's own, else the baseline."""
    if policy is not None:
        return study.placements([policy])[0]
    return source.placement if source.manifest.placement is not None else NAMED[BASELINE]


def _print(found: Sensitivity, modeled: str, *, default: bool, verbose: bool) -> None:
    from simtool.report.terminal.tables import table
    from simtool.units import format_ns

    why = " (what the trace ran; --policy asks for another)" if default else ""
    console.say(
        f"{modeled}, {found.placement}{why}, concurrency {found.concurrency}, a step of {format_ns(found.step_ns)}: "
        f"{_answer(found)}",
        style="bold",
    )
    syncs = any(bar.unsynced_ns is not None for bar in found.bars)
    telling = [bar for bar in found.bars if verbose or _best_ns(bar) >= _TELLING * found.step_ns]
    rows = []
    for bar in telling:
        gains = [bar.free_ns, bar.halved_ns, *([bar.unsynced_ns] if syncs else []), bar.moved_ns]
        cells = (bar.name, bar.lane, _share(bar.free_ns, found), *map(_time, gains))
        more = (_time(bar.own_ns), _where(bar)) if verbose else ()
        rows.append((*cells, *more))
    heads = ("work", "lane", "tok/s", "free", "halved", *(["unblocked"] if syncs else []), "moved")
    console.show(table("", (*heads, *(["own", "where to"] if verbose else [])), rows, numbers_from=2))
    console.after("tok/s: if the work took no time; moved: in its best other legal place (--verbose says where)")
    if len(telling) < len(found.bars):
        console.after(
            f"{len(found.bars) - len(telling)} more give less than {_TELLING:.1%} each (--verbose lists them)"
        )


def _answer(found: Sensitivity) -> str:
    """The piece worth most on either side, and the best move, where one pays."""
    told = []
    for side, word in (("device", "on the device"), ("host", "on the host")):
        bars = [bar for bar in found.bars if bar.lane == side and bar.free_ns > 0]
        if bars:
            best = max(bars, key=lambda bar: bar.free_ns)
            told.append(f"{word} {best.name} is worth most, {_share(best.free_ns, found)} tokens/s if it took no time")
    unsynced = [bar for bar in found.bars if (bar.unsynced_ns or 0.0) >= _TELLING * found.step_ns]
    told += [
        f"{bar.name} not blocking, {_share(bar.unsynced_ns or 0.0, found)}"
        for bar in sorted(unsynced, key=lambda bar: -(bar.unsynced_ns or 0.0))
    ]
    moved = max(found.bars, key=lambda bar: bar.moved_ns or 0.0)
    if (moved.moved_ns or 0.0) >= _TELLING * found.step_ns and moved.moved_to is not None:
        told.append(f"the best move, {moved.name} {moved.moved_to.where}, {_share(moved.moved_ns or 0.0, found)}")
    return "; ".join(told) or "nothing is worth a thing"


def _best_ns(bar: OpSensitivity) -> float:
    return max(bar.free_ns, bar.moved_ns or 0.0, bar.unsynced_ns or 0.0)


def _share(gained_ns: float, found: Sensitivity) -> str:
    """What shorter steps are worth in tokens/s; all of a step would be worth without end."""
    left = found.step_ns - gained_ns
    return f"{(found.step_ns / left - 1) * 100:+.1f} %" if left > 0 else "-"


def _time(value_ns: float | None) -> str:
    from simtool.units import format_ns

    return "-" if value_ns is None else format_ns(round(value_ns))


def _where(bar: OpSensitivity) -> str:
    return bar.moved_to.where if bar.moved_to is not None and (bar.moved_ns or 0.0) > 0 else ""


def _document(found: Sensitivity, basis: str) -> TornadoDocument:
    from simtool.cli.documents.of_studies import BarRecord, TornadoDocument
    from simtool.cli.documents.record import record

    return TornadoDocument(
        origin="replayed",
        basis=basis,
        placement=found.placement,
        concurrency=found.concurrency,
        step_ns=found.step_ns,
        bars=[
            record(
                BarRecord,
                name=bar.name,
                lane=bar.lane,
                own_ns=bar.own_ns,
                free_ns=bar.free_ns,
                follows_ns=bar.follows_ns,
                halved_ns=bar.halved_ns,
                unsynced_ns=bar.unsynced_ns,
                moved_ns=bar.moved_ns,
                moved_to=bar.moved_to.placement.to_dict() if bar.moved_to else None,
            )
            for bar in found.bars
        ],
        warnings=found.caveats.lines(),
    )

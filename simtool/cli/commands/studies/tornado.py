"""`simtool tornado`: what each op is worth: free, halved, or in its best other place."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
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
from simtool.cli.shared.differences import as_record
from simtool.step.placement import NAMED, PULL_REQUEST_ARMS, Placement

if TYPE_CHECKING:
    from simtool.analysis.comparison.judged import KnownLive
    from simtool.cli.documents.of_studies import TornadoDocument
    from simtool.profile.profile import Profile
    from simtool.study.sensitivity import Sensitivity
    from simtool.trace.trace import Trace


#: Of noise and refitted costs, for what the controller is told: as many as `advise` takes.
DRAWS = 8


def tornado(
    trace: study.TraceArgument,
    policy: Annotated[str | None, typer.Option(help="A placement's name or a .toml file; default: the fastest, "
                                                    "live where it was judged, else of static, "
                                                    "this-step, lag, lag-overlap and the trace's own.")] = None,
    profile: study.ProfileOption = None,
    allow_other_model: OtherModelFlag = False,
    predictor: study.Predictor = None,
    draft_ms: study.DraftMs = None,
    change: study.Changes = None,
    concurrency: study.Concurrency = None,
    waves: study.Waves = None,
    figure: study.FigureOption = None,
    jobs: study.Jobs = None,
    simulator: SimulatorOption = None,
    verbose: VerboseFlag = False,
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:  # fmt: skip
    """Say what to optimise: what each piece of a step is worth if it took less time, did not block, or moved.

    And what it is worth that the controller knows what a draft costs. All in tokens/s, by replays.
    """
    if figure is not None:
        check_output(figure, force=force)
    from simtool.profile.whatif import check_effect

    source, costs = study.open_trace(
        trace, profile, change or (), predictor, refits=DRAWS, allow_other_model=allow_other_model
    )
    tried = _candidates(policy, source, costs)
    check_controller(tried, {"--predictor": predictor, "--draft-ms": draft_ms})
    check_effect(costs, change or (), tried)
    wanted = source.manifest.concurrency if concurrency is None else concurrency
    from simtool.study.settings import settings_of

    (setting,) = settings_of(
        source,
        costs,
        [wanted],
        waves,
        seeds=study.draws_of(costs, DRAWS),
        controller=study.controller(predictor, draft_ms),
    )
    from simtool.study.sensitivity import count_jobs, fastest
    from simtool.study.sensitivity import sensitivity as run
    from simtool.study.settings import expect

    known = study.known_live(setting, [NAMED[name] for name in PULL_REQUEST_ARMS])
    leader = _fastest_live(known) if policy is None and known is not None else None
    placement, why = leader or (tried[0], "here")
    processes = study.processes(jobs)
    if leader is None and len(tried) > 1:
        placement = fastest(setting, tried, processes=processes)
    setting, total = replace(setting, simulator=simulator), count_jobs(placement)
    with console.progress("what if", total, expect([(replace(setting, seeds=()), total)], processes)) as done:
        found = run(setting, placement, processes=processes, progress=done)
    if found.draft is not None and known is not None:
        live = {each.other: each for each in known.comparisons}
        found = replace(found, draft=replace(found.draft, live=live.get(found.draft.placement)))
    if figure is not None:
        from simtool.report.figures.figure_file import save_figure
        from simtool.report.figures.sensitivity import draw_sensitivity

        save_figure(draw_sensitivity(found), figure)
        console.after(f"figure written to {figure}")
    basis = study.basis([replace(setting, seeds=())])
    if json:
        console.emit(_document(found, basis))
    else:
        replay = _command(trace, profile, concurrency, change or ())
        chosen = f" (the fastest {why}; --policy asks for another)" if policy is None else ""
        _print(found, modeled_on(costs, source, found.caveats), chosen, replay, verbose=verbose)
        console.after(f"modeled, {basis}")
    study.warn(found.caveats, verbose=verbose)


def _candidates(policy: str | None, source: Trace, costs: Profile) -> list[Placement]:
    """The one asked for; else the arms of the pull request and the trace's own, as far as the costs know their ops."""
    if policy is not None:
        (asked,) = study.placements([policy])
        study.check_priced(costs, asked)
        return [asked]
    own = [source.placement] if source.manifest.placement is not None else []
    known = {placement.name: placement for placement in (*(NAMED[name] for name in PULL_REQUEST_ARMS), *own)}
    priced = [placement for placement in known.values() if study.is_priced(costs, placement)]
    if not priced:
        study.check_priced(costs, NAMED[BASELINE])
    return priced


def _fastest_live(known: KnownLive) -> tuple[Placement, str]:
    """The placement that live runs put first, and who says so."""
    ahead = [each for each in known.comparisons if each.resolved and each.ratio > 1]
    name = max(ahead, key=lambda each: each.ratio).other if ahead else BASELINE
    return NAMED[name], f"live, {known.setting.page}"


def _print(found: Sensitivity, modeled: str, chosen: str, replay: str, *, verbose: bool) -> None:
    from simtool.report.terminal.levers import answer, bars_table, levers

    first, *more = answer(found, modeled, chosen)
    console.say(first, style="bold")
    for line in more:
        console.say(line)
    best = next((each for each in levers(found) if each.options), None)
    if best is not None:
        console.say(f"  try it: {replay} {best.options}")
    table, left_out = bars_table(found, verbose=verbose)
    console.show(table)
    console.after(
        "takes: its own time in a step; moved: in its best other legal place (--verbose says where); prepare, compute, "
        "copy: streams of the device"
    )
    if left_out:
        console.after(f"{left_out} more give less than 0.5 % each if they took no time (--verbose lists them)")


def _command(trace: Path, profile: Path | None, concurrency: int | None, changes: Sequence[str]) -> str:
    """The words of a replay at the same costs; more options go behind them."""
    words = ["simtool", "replay", str(trace)]
    words += ["--profile", str(profile)] if profile is not None else []
    words += ["--concurrency", str(concurrency)] if concurrency is not None else []
    return shlex.join([*words, *(word for change in changes for word in ("--set", change))])


def _document(found: Sensitivity, basis: str) -> TornadoDocument:
    from simtool.cli.documents.of_studies import BarRecord, DraftToldRecord, LeverRecord, TornadoDocument
    from simtool.cli.documents.record import document, record
    from simtool.report.terminal.levers import levers

    draft = found.draft
    return document(
        TornadoDocument,
        found,
        origin="replayed",
        basis=basis,
        levers=[record(LeverRecord, lever) for lever in levers(found)],
        draft_told=draft
        and record(
            DraftToldRecord,
            draft,
            worth=as_record(draft.worth),
            over_untold=as_record(draft.over_untold),
            over_static=as_record(draft.over_static),
            live=draft.live and as_record(draft.live),
        ),
        bars=[record(BarRecord, bar, moved_to=bar.moved_to and bar.moved_to.placement.to_dict()) for bar in found.bars],
        warnings=found.caveats.lines(),
    )

"""`simtool what-if`: one page on which a reader changes costs and order of a step, and sees what that is worth."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.analysis.comparison.headline import BASELINE
from simtool.cli.options import (
    ForceFlag,
    JsonFlag,
    OtherModelFlag,
    OutPath,
    check_controller,
    check_distinct,
    check_output,
    command_line,
)
from simtool.cli.shared import console, study
from simtool.errors import UsageError
from simtool.step.placement import BUILT_IN, XLLM_ARMS, Placement

if TYPE_CHECKING:
    from simtool.profile.profile import Profile
    from simtool.replay.controller_options import PredictorChoice
    from simtool.report.whatif.grid import WhatIfGrid

_OPENS_WITH = "lag-overlap"


def what_if(
    traces: study.TraceOfEachSl,
    policy: Annotated[list[str] | None, typer.Option(help="Placements to choose from, by name or .toml file, beside "
                                                          "static; may be repeated; the page opens with the first; "
                                                          "default: the built-in ones.")] = None,
    profile: Annotated[list[Path] | None, typer.Option(help="Costs: one for all traces, or one each in their order; "
                                                            "default: calibrated from each trace itself.")] = None,
    allow_other_model: OtherModelFlag = False,
    predictor: study.Predictor = None,
    draft_ms: study.DraftMs = None,
    concurrency: Annotated[str | None, typer.Option(help="Stops of the slider, such as 1,4,16; default: 1, 2, 4 and "
                                                         "so on up to the trace's own.")] = None,
    seeds: Annotated[int, typer.Option(help="Draws of noise and refitted costs, for the interval; 3 or more.")] = 8,
    waves: study.Waves = None,
    out: OutPath = None,
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:  # fmt: skip
    """Write an HTML page that opens anywhere, offline: one step, its costs on sliders, its ops to be dragged.

    Tokens per second, their interval and the critical path follow in the browser, by the simulator's own step rule.
    """
    if seeds < 3:
        raise UsageError(f"--seeds {seeds}: an interval worth acting on needs 3 or more")
    check_distinct(traces)
    profiles = _each(profile or [], len(traces))
    target = out if out is not None else Path("reports") / f"{traces[0].resolve().name}-what-if.html"
    check_output(target, force=force)
    named = study.placements(policy or (*BUILT_IN, *XLLM_ARMS))
    (static,) = study.placements([BASELINE])
    placements = [static, *(placement for placement in named if placement.name != BASELINE)]
    check_controller(placements, {"--predictor": predictor, "--draft-ms": draft_ms})
    _check_one_step(placements)
    from simtool.report.whatif.page import what_if_page

    grids = []
    for trace, path in zip(traces, profiles, strict=True):
        source, costs = study.open_trace(
            trace, path, (), predictor, refits=study.refits_for(seeds), allow_other_model=allow_other_model
        )
        priced = _priced(costs, placements, asked=bool(policy))
        stops = study.numbers(concurrency, 0) if concurrency else _stops(source.manifest.concurrency)
        from simtool.report.whatif.grid import WhatIfGrid
        from simtool.study.settings import settings_of

        draws = study.draws_of(costs, seeds)
        settings = settings_of(
            source, costs, sorted(stops), waves, seeds=draws, controller=study.controller(predictor, draft_ms)
        )
        grids.append(WhatIfGrid(settings, priced, _sweep(trace, path, draws, waves, predictor, draft_ms)))
    _check_one_an_sl(grids)
    names = [placement.name for placement in grids[0].placements]
    wanted = placements[min(1, len(placements) - 1)].name if policy else _OPENS_WITH
    opens_with = wanted if wanted in names else names[-1]
    from simtool.study.settings import expect

    known = expect([(setting, len(grid.placements)) for grid in grids for setting in grid.settings], 1)
    with console.progress("replaying", sum(len(grid.settings) for grid in grids), known) as done:
        page = what_if_page(grids, opens_with, command=command_line(), progress=done)
    page.write(target)
    if json:
        from simtool.cli.documents.of_studies import WhatIfDocument

        console.emit(WhatIfDocument(page=str(target), answer=page.answer))
    else:
        console.say(page.answer)
        console.line(f"wrote {target}")


def _each(profiles: list[Path], count: int) -> list[Path | None]:
    """One profile a trace."""
    if not profiles:
        return [None] * count
    if len(profiles) not in (1, count):
        raise UsageError(f"{len(profiles)} profiles for {count} traces; give one for all, or one each in their order")
    return [*profiles] if len(profiles) == count else [*profiles] * count


def _stops(most: int) -> list[int]:
    """1, 2, 4 and so on up to the concurrency that was recorded: nothing beyond it is known without being told."""
    return [*(2**power for power in range(most.bit_length()) if 2**power < most), most]


def _priced(costs: Profile, placements: Sequence[Placement], *, asked: bool) -> list[Placement]:
    """The placements that the profile can price; raises UsageError where one that was asked for is not, or none is."""
    found, lacking = [], []
    for placement in placements:
        try:
            study.check_priced(costs, placement)
            found.append(placement)
        except UsageError:
            if asked or placement.name in (BASELINE, _OPENS_WITH):
                raise
            lacking.append(placement.name)
    if lacking:
        console.after(f"left out, for {costs.name} lacks a cost of theirs: {', '.join(lacking)}")
    return found


def _sweep(
    trace: Path,
    profile: Path | None,
    seeds: int,
    waves: int | None,
    predictor: PredictorChoice | None,
    draft_ms: float | None,
) -> list[str]:
    """The words of the command that gives a grid's figures again."""
    given = {
        "--profile": profile,
        "--seeds": seeds or None,
        "--waves": waves,
        "--predictor": predictor,
        "--draft-ms": draft_ms,
    }
    options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    return [shlex.quote(word) for word in ("simtool", "sweep", str(trace), *options)]


def _check_one_step(placements: Sequence[Placement]) -> None:
    """Refuse what reaches past one step's order of the host's work, which is all that the page reckons with."""
    for placement in placements:
        if placement.needs_simpy:
            why = "launches work for the next step" if placement.runs_ahead else "splits its budget on the device"
            raise UsageError(
                f"--policy {placement.name}: it {why}, which the page's step rule does not have; take `simtool replay` "
                "or `simtool sweep` for it"
            )


def _check_one_an_sl(grids: Sequence[WhatIfGrid]) -> None:
    lengths = [grid.settings[0].source.manifest.sl for grid in grids]
    for sl in lengths:
        if lengths.count(sl) > 1:
            raise UsageError(f"{lengths.count(sl)} traces are of SL {sl}; give one trace for each SL")

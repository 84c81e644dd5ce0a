"""Advice to a run of another engine that decides nothing: the most that pruning could give, and what tells more."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from simtool.cli.options import FINDING
from simtool.cli.shared import console, study
from simtool.cli.shared.costs import modeled_on
from simtool.cli.shared.differences import as_record
from simtool.errors import UsageError

if TYPE_CHECKING:
    from simtool.cli.documents.of_replays import AdviseDocument
    from simtool.profile.profile import Profile
    from simtool.replay.controller_options import PredictorChoice
    from simtool.step.placement import Placement
    from simtool.study.bounds.bound import Bound
    from simtool.trace.trace import Trace

#: Where a decision would stand in vLLM's order.
DECIDING = "vllm/this-step"
#: What a decision adds to a step, by whether the run drafts behind the verify: options that assume what it costs.
_ASSUMED = {
    True: "--set decide=50us --set read_confidence=20us",
    False: "--set decide=50us --set build_varlen=300us --set fill_varlen=100us --set store_confidence=20us "
    "--set read_confidence=20us",
}


def engine_order(source: Trace) -> Placement | None:
    """Return the order that another engine's run had; None for a run of this one, and where an import does not tell."""
    from simtool.trace.importers.recorded_order import recorded_order

    return recorded_order(source) if source.manifest.origin == "imported" else None


def check_predictor(
    source: Trace, costs: Profile, predictor: PredictorChoice | None, placements: Sequence[Placement]
) -> None:
    """Raise UsageError for a controller that weighs rows whose cost nothing tells: it would prune nothing."""
    from simtool.study.runner import controller_of

    weighs = [
        each.name for each in placements if each.decides and each.rule.reads & {"predictor", "table"} == {"predictor"}
    ]
    if predictor == "none" or not weighs or controller_of(source, costs, predictor).predictor is not None:
        return
    raise UsageError(
        f"{weighs[0]} weighs what a verified row costs, and nothing tells that: the steps of {costs.name} that were "
        "profiled all verified as many rows; calibrate on steps of other batches as well (profile while a load fills "
        "and drains), or --predictor none for a controller that takes every verify to cost 1 ms and prunes nothing"
    )


def advise_bound(
    source: Trace,
    costs: Profile,
    order: Placement,
    *,
    given: tuple[Path | None, Sequence[str]],
    jobs: int,
    json: bool,
) -> None:
    """Print the most that pruning could give; exit 1 unless that settles it. given: the profile's file, the changes."""
    from simtool.report.terminal import bound as words
    from simtool.report.terminal.advice import what_changes
    from simtool.report.terminal.tables import table
    from simtool.study.bounds.bound import STAGES, bound
    from simtool.study.settings import settings_of

    (setting,) = settings_of(source, costs, [source.manifest.concurrency])
    with console.progress("replaying", STAGES) as done:
        found = bound(setting, order, processes=jobs, progress=done)
    modeled = modeled_on(costs, source)
    if json:
        console.emit(_document(found, words.headline(found, modeled), source, told=words.told(found)))
    else:
        console.say(words.headline(found, modeled), style="bold")
        for line in words.what_it_takes(found):
            console.say(f"  {line}")
        drafts = source.manifest.sl
        if found.fixed:
            title = f"Every step at so many of the {drafts} drafts, against {order.name} (modeled)"
            console.show(table(title, ("drafts", "tokens/s", "95 % over steps"), words.fixed_budgets(found)))
            console.say(words.about_fixed(found, drafts))
        if rows := what_changes(found.changes):
            title = f"What else is worth doing, under {order.name} (modeled)"
            console.show(table(title, ("change", "gain", "95 % over steps"), rows))
        whose = f"costs of {costs.name}: {costs.device_name} ({costs.device})"
        command = shlex.join(["simtool", "advise", str(source.path), *_options(*given)])
        assumed = _ASSUMED[order.keeps_drafts]
        for title, lines in (
            ("It rests on", words.rests_on(found, source, whose)),
            ("To know more", words.to_know_more(found, source, command, assumed)),
        ):
            console.say(f"{title}:", style="italic")
            for line in lines:
                console.say(f"  {line}")
    study.warn(found.caveats)
    if not words.told(found):
        raise typer.Exit(FINDING)


def _options(profile: Path | None, changes: Sequence[str]) -> list[str]:
    return [*(["--profile", str(profile)] if profile else []), *(w for each in changes for w in ("--set", each))]


def _document(found: Bound, answer: str, source: Trace, *, told: bool) -> AdviseDocument:
    from simtool.cli.documents.of_replays import AdviseDocument, BoundRecord, ChangeRecord
    from simtool.cli.documents.record import document, record

    return document(
        AdviseDocument,
        trace=str(source.path),
        answer=answer,
        use=None,
        told=told,
        origin="modeled",
        measured_in="",
        disagree=False,
        verdict=as_record(found.oracle),
        candidates=[],
        live_once=[],
        modeled=[as_record(found.oracle)],
        with_recorded_predictor=[],
        changes=[record(ChangeRecord, each, worth=as_record(each.worth)) for each in found.changes],
        draft_told=None,
        turns=[],
        turns_withheld="",
        warnings=found.caveats.lines(),
        bound=record(BoundRecord, found, fixed={length: each.ratio for length, each in found.fixed}),
    )

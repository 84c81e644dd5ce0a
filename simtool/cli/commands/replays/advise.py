"""`simtool advise`: should it be turned on? One screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.analysis.comparison.headline import BASELINE
from simtool.cli.commands.replays.bounded import DECIDING, advise_bound, check_predictor, engine_order
from simtool.cli.options import (
    FINDING,
    JsonFlag,
    OtherModelFlag,
    Traces,
    VerboseFlag,
    check_controller,
    check_distinct,
    command_name,
)
from simtool.cli.shared import console, study
from simtool.cli.shared.costs import modeled_on
from simtool.cli.shared.differences import as_record
from simtool.cli.shared.policies import ALL
from simtool.errors import SimtoolError, UsageError
from simtool.step.placement import NAMED

if TYPE_CHECKING:
    from simtool.cli.documents.of_replays import AdviseDocument
    from simtool.profile.profile import Profile
    from simtool.progress import Expected
    from simtool.replay.controller_options import PredictorChoice
    from simtool.report.terminal.decision import Decision
    from simtool.step.placement import Placement
    from simtool.study.advice import Advice
    from simtool.study.runner import Setting
    from simtool.trace.manifest import Manifest
    from simtool.trace.trace import Trace

_MOST_DRAWS = 200


def advise(
    traces: Traces,
    policy: Annotated[list[str] | None, typer.Option(help="Placements to turn on, perhaps: names, .toml files or all; "
                                                          "may be repeated; default: all, of a run of vLLM its order "
                                                          "with a decision in it.")] = None,
    profile: study.ProfileOption = None,
    change: study.Changes = None,
    allow_other_model: OtherModelFlag = False,
    predictor: study.Predictor = None,
    draft_ms: study.DraftMs = None,
    concurrency: study.Concurrency = None,
    waves: study.Waves = None,
    seeds: Annotated[int, typer.Option(help="Replays of each placement, with noise and refitted costs: 3 to 200, for "
                                            "the intervals.")] = 8,
    noise_only: study.NoiseOnly = False,
    jobs: study.Jobs = None,
    verbose: VerboseFlag = False,
    json: JsonFlag = False,
) -> None:  # fmt: skip
    """Say whether to turn a placement on, by how much that pays, what matters more and what would turn the answer.

    Live runs of static and of a candidate decide where there are any, among the traces or in docs/fidelity.md; else
    replays. Exit status 1: it cannot be told.
    """
    if not 3 <= seeds <= _MOST_DRAWS:
        raise UsageError(f"--seeds {seeds}: an interval worth acting on needs 3 or more; at most {_MOST_DRAWS}")
    check_distinct(traces)
    asked = study.placements(policy or ())
    from simtool.report.terminal import advice as words
    from simtool.report.terminal.decision import Evidence, decide
    from simtool.study.advice import STAGES
    from simtool.study.advice import advise as run

    opened, source, costs = _open(traces, profile, change or (), predictor, seeds, allow_other_model=allow_other_model)
    own = engine_order(source)
    baseline, candidates = _arms(asked, own)
    check_controller(candidates, {"--predictor": predictor, "--draft-ms": draft_ms})
    if own is not None and policy is None and not all(study.is_priced(costs, each) for each in candidates):
        _check_whole(concurrency, waves)
        advise_bound(source, costs, own, given=(profile, change or ()), jobs=study.processes(jobs), json=json)
        return
    check_predictor(source, costs, predictor, candidates)
    wanted = source.manifest.concurrency if concurrency is None else concurrency
    same_load = concurrency in (None, source.manifest.concurrency)
    live, once = words.live_comparisons(opened, baseline.name) if same_load else ([], [])
    controller = study.controller(predictor, draft_ms)
    from simtool.study.runner import Setting

    setting = Setting(source, costs, wanted, controller=controller)
    known = study.known_live(setting, candidates)
    before = known.comparisons if known is not None and not live else ()
    found: Advice | None = None
    try:
        setting = _priced(setting, candidates, waves, seeds, noise_only=noise_only)
        ahead = [each for each in (live or before) if each.ratio > 1]
        leading = max(ahead, key=lambda each: each.ratio).other if ahead else None
        with console.progress("replaying", STAGES, _expected(setting, candidates, jobs)) as done:
            found = run(
                setting,
                baseline,
                candidates,
                leading=leading if leading in {placement.name for placement in candidates} else None,
                processes=study.processes(jobs),
                progress=done,
            )
    except SimtoolError as error:
        if not live and not before:
            raise
        console.after(f"nothing was replayed, so what else is worth doing is not said: {error}")
    where, elsewhere = (known.setting.page, known.elsewhere) if known and before else ("", "")
    modeled = modeled_on(costs, source) + (f" at assumed costs, {', '.join(change)}" if change else "")
    evidence = Evidence(live or before, once, where, modeled, elsewhere)
    decision = decide(found, evidence)
    if json:
        console.emit(_document(found, decision, source, baseline.name))
    else:
        judged = known.setting if known else None
        _print(found, decision, setting, baseline.name, words.rests_on(decision, setting, opened, judged))
    if found is not None:
        study.warn(found.caveats, verbose=verbose)
    if not decision.told:
        raise typer.Exit(FINDING)


def _arms(asked: Sequence[Placement], own: Placement | None) -> tuple[Placement, list[Placement]]:
    """The baseline, an engine's own order where that is told, and what may be turned on."""
    baseline = own or NAMED[BASELINE]
    named = asked or study.placements([DECIDING] if own and own.keeps_drafts else [ALL])
    candidates = [placement for placement in named if placement.name != baseline.name]
    if not candidates:
        raise UsageError(f"--policy {baseline.name} is what the others are compared with; name another placement")
    return baseline, candidates


def _priced(
    setting: Setting, candidates: Sequence[Placement], waves: int | None, seeds: int, *, noise_only: bool
) -> Setting:
    """The setting with its draws of noise; raises UsageError where its costs lack a candidate's op."""
    from simtool.study.settings import settings_of

    costs, controller = setting.profile, setting.controller
    for placement in candidates:
        study.check_priced(costs, placement)
    draws = study.draws_of(costs, seeds)
    (priced,) = settings_of(
        setting.source, costs, [setting.concurrency], waves, seeds=draws, noise_only=noise_only, controller=controller
    )
    return priced


def _check_whole(concurrency: int | None, waves: int | None) -> None:
    """Refuse what has no say in the most that a run could gain."""
    for option, value in (("--concurrency", concurrency), ("--waves", waves)):
        if value is not None:
            raise UsageError(f"{option} has no effect on the most that a run could gain; leave it out")


#: What traces of one setting have in common.
_ALIKE: Mapping[str, Callable[[Manifest], object]] = {
    "SL": lambda manifest: manifest.sl,
    "the drafter": lambda manifest: manifest.algorithm,
}


def _expected(setting: Setting, candidates: Sequence[Placement], jobs: int | None) -> Expected:
    """What the replays of the candidates and the baseline take, the largest part."""
    from simtool.study.settings import expect

    return expect([(setting, len(candidates) + 1)], study.processes(jobs))


def _open(
    paths: Sequence[Path],
    profile: Path | None,
    changes: Sequence[str],
    predictor: PredictorChoice | None,
    seeds: int,
    *,
    allow_other_model: bool,
) -> tuple[list[Trace], Trace, Profile]:
    """Open all; the trace that knows most outcomes is the one that is replayed."""
    from simtool.trace.checks.sound import open_sound

    opened = [open_sound(path) for path in paths]
    for what, read in _ALIKE.items():
        holders: dict[object, str] = {}
        for trace in opened:
            holders.setdefault(read(trace.manifest), trace.path.name)
        if len(holders) > 1:
            found = ", ".join(f"{value} in {name}" for value, name in holders.items())
            raise UsageError(f"the traces differ in {what}: {found}; give those of one setting")
    best = max(opened, key=lambda trace: trace.height("outcomes"))
    live = [trace for trace in opened if trace.manifest.origin == "live"]
    if profile is None and len(live) > 1:
        from simtool.profile.whatif import with_changes

        return opened, best, with_changes(_pooled(live, seeds), changes)
    costs = study.costs_of(best, profile, changes, predictor, refits=seeds, allow_other_model=allow_other_model)
    return opened, best, costs


def _pooled(live: Sequence[Trace], seeds: int) -> Profile:
    """Costs fitted on all live traces; the predictor that they were recorded with, where one of them had one."""
    from simtool.calibrate.fit import calibrate
    from simtool.profile.proxies import with_proxies
    from simtool.replay.scenario import recorded_controller

    today = date.today().isoformat()
    costs = calibrate(live, name="the traces given", command=command_name(), created=today, refits=seeds)
    recorded = [known for trace in live if (known := recorded_controller(trace.manifest).predictor)]
    return with_proxies(replace(costs, predictor=recorded[0] if recorded else costs.predictor))


def _print(found: Advice | None, decision: Decision, setting: Setting, baseline: str, rests_on: Sequence[str]) -> None:
    from simtool.report.terminal import advice as words
    from simtool.report.terminal.decision import headline
    from simtool.report.terminal.tables import table

    console.say(headline(decision, baseline), style="bold")
    if told := words.when_told(found, decision, setting):
        console.say(told, style="bold")
    console.show(table(f"Against {baseline}, tokens/s ({decision.origin})", *words.each_of(decision)))
    best = found.best.other if found else decision.comparison.other
    if found is not None:
        if rows := words.what_matters(found, decision):
            heads = ("change", f"over {best} as it is", f"95 % over {found.best.over}")
            console.show(table(f"What else is worth doing, under {best} (modeled)", heads, rows))
        _section(f"What would turn it: {best} against {baseline} (modeled)", words.what_turns(found, decision))
    _section("It rests on", rests_on)
    _section("To be surer", [words.to_be_surer(decision, setting.source, setting.concurrency, (baseline, best))])


def _section(title: str, lines: Sequence[str]) -> None:
    console.say(f"{title}:", style="italic")
    for line in lines:
        console.say(f"  {line}")


def _document(found: Advice | None, decision: Decision, source: Trace, baseline: str) -> AdviseDocument:
    from simtool.cli.documents.of_replays import AdviseDocument, ChangeRecord, ToldRecord, TurnRecord
    from simtool.cli.documents.record import document, record
    from simtool.report.terminal.advice import told_over_static, withheld
    from simtool.report.terminal.decision import headline

    changes = found.changes if found else ()
    told = told_over_static(found, decision)
    why = withheld(found, decision) if found else ""
    return document(
        AdviseDocument,
        trace=str(source.path),
        answer=headline(decision, baseline),
        use=decision.use,
        told=decision.told,
        origin=decision.kind,
        measured_in=decision.evidence.where,
        disagree=decision.disagree,
        live_once=[as_record(each) for each in decision.evidence.once],
        verdict=as_record(decision.comparison),
        candidates=[as_record(each) for each in decision.others],
        modeled=[as_record(each) for each in found.comparisons] if found else [],
        with_recorded_predictor=[as_record(each) for each in found.as_recorded] if found else [],
        changes=[
            record(
                ChangeRecord,
                lever=each.lever,
                placement=each.placement,
                subject=each.subject,
                draft_ms=each.draft_ms,
                worth=as_record(each.worth),
            )
            for each in changes
        ],
        draft_told=told and record(ToldRecord, told[0], gain=told[1], origin=decision.kind),
        turns=[record(TurnRecord, turn) for turn in found.turns] if found and not why else [],
        turns_withheld=why,
        warnings=found.caveats.lines() if found else [],
    )

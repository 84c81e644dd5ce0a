"""`simtool advise`: should it be turned on? One screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli.options import FINDING, JsonFlag, OtherModelFlag, Traces, VerboseFlag, check_distinct
from simtool.cli.shared import console, study
from simtool.errors import UsageError
from simtool.step.placement import PULL_REQUEST_ARMS, Placement

if TYPE_CHECKING:
    from simtool.profile.profile import Profile
    from simtool.replay.controller_options import PredictorChoice
    from simtool.report.terminal.advice import Decision
    from simtool.study.advice import Advice
    from simtool.study.runner import Setting
    from simtool.trace.trace import Trace

_BASELINE = "static"
_SCHEMA_VERSION = 1


def advise(
    traces: Traces,
    policy: Annotated[list[str] | None, typer.Option(help="Placements to turn on, perhaps; may be repeated; default: "
                                                          "this-step, lag and lag-overlap.")] = None,
    profile: study.ProfileOption = None,
    allow_other_model: OtherModelFlag = False,
    predictor: study.Predictor = None,
    concurrency: Annotated[int | None, typer.Option(help="Requests at once; default: the trace's.")] = None,
    waves: study.Waves = None,
    seeds: Annotated[int, typer.Option(help="Replays of each placement, with noise and refitted costs; 3 or more, for "
                                            "the intervals.")] = 8,
    jobs: study.Jobs = None,
    verbose: VerboseFlag = False,
    json: JsonFlag = False,
) -> None:  # fmt: skip
    """Say whether to turn a placement on, by how much that pays, what matters more and what would turn the answer.

    Live runs of static and of a candidate decide where there are any, else replays. Exit status 1: it cannot be told.
    """
    if seeds < 3:
        raise UsageError(f"--seeds {seeds}: an interval worth acting on needs 3 or more")
    check_distinct(traces)
    names = policy or [name for name in PULL_REQUEST_ARMS if name != _BASELINE]
    baseline, *candidates = study.placements([_BASELINE, *names])
    if not candidates:
        raise UsageError(f"--policy {_BASELINE} is what the others are compared with; name another placement")
    from simtool.report.terminal import advice as words
    from simtool.study.advice import STAGES
    from simtool.study.advice import advise as run

    opened, source, costs = _open(traces, profile, predictor, allow_other_model=allow_other_model)
    for placement in candidates:
        study.check_priced(costs, placement)
    wanted = source.manifest.concurrency if concurrency is None else concurrency
    from simtool.study.settings import settings_of

    (setting,) = settings_of(source, costs, [wanted], waves, seeds=seeds, predictor=predictor)
    same_load = concurrency in (None, source.manifest.concurrency)
    live = words.live_comparisons(opened, _BASELINE) if same_load else []
    leading = max(live, key=lambda each: each.ratio).other if live else None
    known = {placement.name for placement in candidates}
    with console.progress("thinking", total=STAGES) as done:
        found = run(
            setting,
            baseline,
            candidates,
            leading=leading if leading in known else None,
            processes=study.processes(jobs),
            progress=done,
        )
    decision = words.decide(found, live)
    if json:
        console.emit_json(_document(found, decision, source))
    else:
        _print(found, decision, setting, baseline)
    study.warn(found.caveats, verbose=verbose)
    if not decision.told:
        raise typer.Exit(FINDING)


def _open(
    paths: Sequence[Path], profile: Path | None, predictor: PredictorChoice | None, *, allow_other_model: bool
) -> tuple[list[Trace], Trace, Profile]:
    """Open all; the trace that knows most outcomes is the one that is replayed."""
    from simtool.trace.checks.sound import open_sound

    opened = [open_sound(path) for path in paths]
    if len({(trace.manifest.sl, trace.manifest.algorithm) for trace in opened}) > 1:
        raise UsageError("the traces differ in SL or drafter; give those of one setting")
    best = max(opened, key=lambda trace: trace.table("outcomes").height)
    source, costs = study.open_trace(best.path, profile, (), predictor, allow_other_model=allow_other_model)
    return opened, source, costs


def _print(found: Advice, decision: Decision, setting: Setting, baseline: Placement) -> None:
    from simtool.report.terminal import advice as words
    from simtool.report.terminal.tables import table

    source, best = setting.source, found.best.other
    console.say(words.headline(decision, baseline.name), style="bold")
    _section("It rests on", words.rests_on(decision, source, setting.profile, setting.concurrency))
    if rows := words.what_matters(found):
        console.show(
            table(f"What else is worth doing, under {best} (modeled)", ("change", "gain", "95 % interval"), rows)
        )
    _section(f"What would turn it: {best} against {baseline.name} (modeled)", words.what_turns(found))
    names = (baseline.name, best)
    _section("To be surer", [words.to_be_surer(decision, source, setting.concurrency, names)])


def _section(title: str, lines: Sequence[str]) -> None:
    console.say(f"{title}:", style="italic")
    for line in lines:
        console.say(f"  {line}")


def _document(found: Advice, decision: Decision, source: Trace) -> dict[str, object]:
    def told(comparison: object) -> dict[str, object]:
        names = ("baseline", "other", "ratio", "resolved", "interval", "method")
        return {name: getattr(comparison, name) for name in names}

    return {
        "schema_version": _SCHEMA_VERSION,
        "source": str(source.path),
        "use": decision.use,
        "told": decision.told,
        "origin": decision.origin,
        "verdict": told(decision.comparison),
        "modeled": [told(each) for each in found.comparisons],
        "changes": [
            {"lever": each.lever, "subject": each.subject, "draft_ms": each.draft_ms, **told(each.worth)}
            for each in found.changes
        ],
        "turns": [asdict(turn) for turn in found.turns],
        "warnings": found.caveats.lines(),
    }

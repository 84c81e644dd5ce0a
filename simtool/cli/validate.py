"""`simtool validate`: record the arms live, calibrate, replay, and set predicted beside measured."""

from __future__ import annotations

import json as json_format
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli import console, live
from simtool.cli.options import FINDING, ForceFlag, JsonFlag
from simtool.errors import UsageError
from simtool.step.placement import PULL_REQUEST_ARMS, Placement, resolve_placement

if TYPE_CHECKING:
    from simtool.analysis.fidelity import Fidelity
    from simtool.calibrate.profile import Profile
    from simtool.engine.engine import Prompt
    from simtool.engine.session import Session
    from simtool.step.controller import ControllerSettings
    from simtool.trace.bundle import Bundle

_NOISE_SEEDS = 10


def validate(
    out: Annotated[Path, typer.Option(help="Folder for everything: fit/, live/, replayed/, profile, validation.")],
    policy: Annotated[list[str] | None, typer.Option(help="Placements to judge; may be repeated; default: the four "
                                                          "arms of the pull request.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or npu.")] = "cpu",
    algorithm: Annotated[str | None, typer.Option(help="Shipped drafter to use: dspark or dflash.")] = None,
    sl: Annotated[int | None, typer.Option(help="Draft tokens per block.")] = None,
    concurrency: Annotated[int, typer.Option(help="Requests that run at once.")] = 8,
    num_prompts: Annotated[int, typer.Option(help="Prompts of each set: one to fit on, another to judge on.")] = 32,
    max_new_tokens: Annotated[int | None, typer.Option(help="Tokens asked for at most, per request.")] = None,
    repeats: Annotated[int, typer.Option(help="Live repetitions per arm, interleaved, order rotated.")] = 5,
    target: Annotated[Path | None, typer.Option(help="Target checkpoint folder.")] = None,
    draft: Annotated[Path | None, typer.Option(help="Drafter checkpoint folder.")] = None,
    dtype: Annotated[str, typer.Option(help="float32, float64, bfloat16 or float16.")] = "float32",
    seed: Annotated[int, typer.Option(help="Seed of the prompts to fit on; those to judge on take the next.")] = 0,
    report: Annotated[Path | None, typer.Option(help="Also write the interactive page here.")] = None,
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:  # fmt: skip
    """Judge the replay: live arms on one set of prompts, costs fitted on another, errors printed, failures included.

    Exit 1 when a replay visits another anchor or accepts other tokens than its live run.
    """
    placements = [resolve_placement(name) for name in policy or PULL_REQUEST_ARMS]
    if repeats < 2:
        raise UsageError(f"--repeats is {repeats}; an interval needs 2 or more")
    if len({placement.name for placement in placements}) < len(placements):
        raise UsageError("a placement was given twice; give each once")
    _make_room(out, force)
    models = live.choose_models(target, draft, algorithm, sl)
    from simtool.engine.spec import SamplingConfig

    with live.open_session(
        device, models, concurrency, dtype=dtype, sampling=SamplingConfig(seed=seed), kv=(None, 16)
    ) as session:
        controller = live.controller_settings(session, "live", 0.0, 0.0)
        vocabulary = session.info.vocab_size
        fit, judged = (
            live.PromptSource(num_prompts, max_new_tokens, each).load(models.target, vocabulary)
            for each in (seed, seed + 1)
        )
        console.note(f"to judge on: {live.shapes(judged)}")
        runs = _record(session, placements, controller, {"fit": fit, "live": judged}, repeats, out)
    from simtool.cli.fill import fill_bundle

    source = runs["live"][placements[0].name][0]
    fill_bundle(source, models.target, models.draft)
    outcome = _judge(runs, source, placements, controller, out)
    (out / "validation.json").write_text(json_format.dumps(outcome.fidelity.to_dict(), indent=2) + "\n")
    _present(outcome, json=json)
    if report is not None:
        _write_report(outcome, report)
    if outcome.fidelity.mismatches:
        raise typer.Exit(FINDING)


@dataclass(frozen=True)
class Outcome:
    """What a validation leaves: live repetitions and replay of each arm, and their comparison."""

    live: Mapping[str, Sequence[Bundle]]
    replayed: Mapping[str, Bundle]
    profile: Profile
    fidelity: Fidelity


def _make_room(out: Path, force: bool) -> None:
    marker = out / "validation.json"
    if out.exists() and any(out.iterdir()) and not (force and (marker.exists() or (out / "live").is_dir())):
        raise UsageError(f"{out}: holds files already; choose another folder, or --force over an older validation")
    out.mkdir(parents=True, exist_ok=True)


def _record(
    session: Session,
    placements: Sequence[Placement],
    controller: ControllerSettings,
    prompts: Mapping[str, Sequence[Prompt]],
    repeats: int,
    out: Path,
) -> dict[str, dict[str, list[Path]]]:
    """Interleave everything: each repetition runs every arm on both sets, starting with another arm each time."""
    from simtool.engine.session import RunPlan

    runs: dict[str, dict[str, list[Path]]] = {use: {p.name: [] for p in placements} for use in prompts}
    plans = {
        (use, placement.name): RunPlan(served, placement, controller)
        for use, served in prompts.items()
        for placement in placements
    }
    for plan in plans.values():
        session.check(plan)
    for placement in placements:
        session.warm_up(plans["fit", placement.name])
    total = repeats * len(plans)
    with console.progress(f"recording {total} live runs", total=total) as done:
        for repeat in range(repeats):
            turn = repeat % len(placements)
            for placement in (*placements[turn:], *placements[:turn]):
                for use in prompts:
                    path = out / use / f"{placement.name}-{repeat}"
                    session.record(path, plans[use, placement.name], force=True)
                    runs[use][placement.name].append(path)
                    done(sum(len(paths) for arms in runs.values() for paths in arms.values()))
    return runs


def _judge(
    runs: Mapping[str, Mapping[str, Sequence[Path]]],
    source: Path,
    placements: Sequence[Placement],
    controller: ControllerSettings,
    out: Path,
) -> Outcome:
    from simtool.analysis.fidelity import judge
    from simtool.calibrate.fit import calibrate
    from simtool.calibrate.profile import save_profile
    from simtool.replay.run import replay
    from simtool.replay.scenario import Scenario
    from simtool.trace.bundle import open_bundle

    fitted = [open_bundle(path) for paths in runs["fit"].values() for path in paths]
    profile = calibrate(fitted, name=out.name, command="simtool validate", created=date.today().isoformat())
    save_profile(profile, out / "profile.json")
    recorded = open_bundle(source)
    replayed, noisy = {}, {}
    with console.progress("replaying", total=len(placements)) as done:
        for index, placement in enumerate(placements):
            scenario = Scenario(placement, recorded.manifest.concurrency, controller)
            path = out / "replayed" / placement.name
            replayed[placement.name] = replay(recorded, profile, scenario).save(path, force=True)
            noisy[placement.name] = [
                replay(
                    recorded, profile, Scenario(placement, scenario.concurrency, controller, noise="residual", seed=s)
                ).bundle(path)
                for s in range(_NOISE_SEEDS)
            ]
            done(index + 1)
    opened = {arm: [open_bundle(path) for path in paths] for arm, paths in runs["live"].items()}
    return Outcome(opened, replayed, profile, judge(opened, replayed, noisy))


def _present(outcome: Outcome, *, json: bool) -> None:
    if json:
        console.emit_json(outcome.fidelity.to_dict())
        return
    from simtool.report.fidelity import describe, tables

    out = console.stdout()
    for table in tables(outcome.fidelity):
        out.print(table)
    for line in describe(outcome.fidelity, [bundle for arm in outcome.live.values() for bundle in arm]):
        out.print(line, soft_wrap=True)


def _write_report(outcome: Outcome, path: Path) -> None:
    from simtool.report.page import write_page

    bundles = [bundle for arm in outcome.live.values() for bundle in arm]
    write_page(path, [*bundles, *outcome.replayed.values()], fidelity=outcome.fidelity)
    console.note(f"report written to {path}")

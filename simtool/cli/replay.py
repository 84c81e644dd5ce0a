"""`simtool replay`: a recorded bundle under other placements, at calibrated costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli import console
from simtool.cli.costs import costs_for
from simtool.cli.options import FINDING, ForceFlag, JsonFlag, check_output, command_line
from simtool.errors import ProfileError, UsageError
from simtool.step.placement import BUILT_IN, PULL_REQUEST_ARMS, Placement, resolve_placement, with_lag

if TYPE_CHECKING:
    from simtool.calibrate.profile import Profile
    from simtool.replay.run import Replay
    from simtool.replay.scenario import Arrivals, Scenario
    from simtool.step.controller import ControllerSettings
    from simtool.trace.bundle import Bundle

_ALL = "all"


def replay(
    trace: Annotated[Path, typer.Argument(help="The bundle whose requests and outcomes are replayed.")],
    policy: Annotated[list[str], typer.Option(help="A placement's name, a .toml file, or all (the four arms of the "
                                                   "pull request); may be repeated.")],
    profile: Annotated[Path | None, typer.Option(help="Costs; default: calibrated from the trace itself.")] = None,
    change: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="What if: decide=0, "
                      "fill_varlen=x0.5, build_varlen=+200us, device.target=4ms. May be repeated.")] = None,
    concurrency: Annotated[int | None, typer.Option(help="Requests at once; default: the trace's.")] = None,
    lag: Annotated[int | None, typer.Option(help="Age of the confidence in steps, for lag placements.")] = None,
    predictor: Annotated[str | None, typer.Option(help="Whose validate-time predictor the controller uses: trace, "
                         "profile or none; default: the trace's, or the profile's when it has none.")] = None,
    arrivals: Annotated[str, typer.Option(help="closed, trace, or poisson:RATE (requests per second).")] = "closed",
    outcomes: Annotated[str, typer.Option(help="strict: refuse an anchor that the trace lacks; resample: substitute "
                                               "a near one, and say how many.")] = "strict",
    noise: Annotated[str, typer.Option(help="none, or residual: resampled fit residuals, alike under every "
                                            "placement.")] = "none",
    seed: Annotated[int | None, typer.Option(help="Seed of noise and random arrivals; default 0.")] = None,
    kv_blocks: Annotated[int | None, typer.Option(help="KV cache blocks; default: the trace's, grown with the "
                                                       "concurrency.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the replayed bundles, one each, named after trace and "
                                                  "placement; default: nothing is written.")] = None,
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:  # fmt: skip
    """Run the recorded requests again on the simulated machine, in another order, and print what it buys."""
    placements = _placements(policy, lag)
    paths = {p.name: (out / f"{trace.name}-{p.name}" if out else trace) for p in placements}
    for path in paths.values() if out else ():
        check_output(path, force=force)
    from simtool.replay.run import replay as run
    from simtool.replay.scenario import Scenario
    from simtool.trace.bundle import open_bundle

    source = open_bundle(trace)
    costs = costs_for(source, profile, change or [])
    base = Scenario(
        placements[0],
        source.manifest.concurrency if concurrency is None else concurrency,
        _controller(source, costs, predictor, placements),
        _arrivals(arrivals),
        outcomes,  # type: ignore[arg-type]  # Scenario checks it
        noise,  # type: ignore[arg-type]  # Scenario checks it
        seed or 0,
        kv_blocks,
    )
    _check_seed(base, seed)
    bundles, refused = [], []
    with console.progress("replaying", total=len(placements)) as done:
        for index, placement in enumerate(placements):
            try:
                replayed = _with_command(run(source, costs, replace(base, placement=placement)))
            except ProfileError as error:
                if _ALL not in policy:
                    raise
                refused.append(f"{placement.name}: not replayed: {error}")
                continue
            path = paths[placement.name]
            bundles.append(replayed.save(path, force=force) if out else replayed.bundle(path))
            done(index + 1)
    _report(bundles, refused, json=json)


def _with_command(replayed: Replay) -> Replay:
    details = {**replayed.manifest.details, "command": command_line()}
    return replace(replayed, manifest=replace(replayed.manifest, details=details))


def _report(bundles: list[Bundle], refused: list[str], *, json: bool) -> None:
    from simtool.cli.summary import print_summaries

    if bundles:
        print_summaries(bundles, json=json)
    for bundle in bundles:
        for warning in bundle.manifest.warnings:
            console.note(f"warning: {bundle.placement.name}: {warning}")
    for line in refused:
        console.note(line)
    if refused:
        raise typer.Exit(FINDING)


def _placements(policies: list[str], lag: int | None) -> list[Placement]:
    names = [name for policy in policies for name in (PULL_REQUEST_ARMS if policy == _ALL else (policy,))]
    placements = [BUILT_IN[name] if name in BUILT_IN else resolve_placement(name) for name in dict.fromkeys(names)]
    if lag is not None:
        placements = [with_lag(placement, lag) for placement in placements]
    if len({placement.name for placement in placements}) < len(placements):
        raise UsageError("two placements have the same name; give each file its own `name`")
    return placements


def _controller(
    source: Bundle, profile: Profile, choice: str | None, placements: list[Placement]
) -> ControllerSettings:
    from simtool.replay.scenario import recorded_controller

    recorded = recorded_controller(source.manifest)
    if not any(placement.decides for placement in placements):
        if choice is not None:
            raise UsageError("--predictor has no effect on static; leave it out, or add a policy that decides")
        return recorded
    if choice is None:
        choice = "trace" if recorded.predictor or not profile.predictor else "profile"
        console.note(f"controller: the {choice}'s predictor")
    fitted = {"trace": recorded.predictor, "profile": profile.predictor, "none": None}
    if choice not in fitted:
        raise UsageError(f"--predictor is {choice!r}; expected trace, profile or none")
    if fitted[choice] is None and choice != "none":
        console.note(f"warning: the {choice} has no predictor, so every verify counts 1 ms and pruning gains nothing")
    return replace(recorded, predictor=fitted[choice])


def _arrivals(text: str) -> Arrivals:
    from simtool.replay.scenario import Arrivals

    kind, colon, rate = text.partition(":")
    try:
        return Arrivals(kind, float(rate) if colon else None)  # type: ignore[arg-type]  # Arrivals checks it
    except ValueError as error:
        raise UsageError(f"--arrivals is {text!r}; expected closed, trace or poisson:RATE") from error


def _check_seed(scenario: Scenario, seed: int | None) -> None:
    if seed is not None and scenario.noise == "none" and scenario.arrivals.kind != "poisson":
        raise UsageError("--seed has no effect without --noise residual or --arrivals poisson:RATE; leave it out")

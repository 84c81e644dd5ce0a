"""A validation's work: record the arms interleaved, calibrate on one set of prompts, replay and judge on another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from simtool.cli.options import check_output, command_line
from simtool.cli.shared import console
from simtool.errors import UsageError
from simtool.step.placement import Placement

if TYPE_CHECKING:
    from simtool.analysis.fidelity.fidelity import Fidelity
    from simtool.engine.prompts.prompt import Prompt
    from simtool.engine.prompts.source import PromptSource
    from simtool.engine.serving.session import Session
    from simtool.profile.profile import Profile
    from simtool.step.controller import ControllerSettings
    from simtool.trace.trace import Trace

_DRAWS = 20  # replays of each arm with noise and costs of their own, for the predicted interval

#: Use ("fit" or "live") -> placement name -> traces, a repetition each.
Runs = Mapping[str, Mapping[str, Sequence[Path]]]


@dataclass(frozen=True)
class Validation:
    """What a validation leaves: live repetitions and the replay of each arm, and their comparison."""

    live: Mapping[str, Sequence[Trace]]
    replayed: Mapping[str, Trace]
    profile: Profile
    fidelity: Fidelity

    def document(self, command: str) -> dict[str, object]:
        """Return everything that a published table must say besides its numbers, and the numbers."""
        traces = [trace for arm in self.live.values() for trace in arm]
        manifest = traces[0].manifest
        load = self.fidelity.load
        setting = {
            "command": command,
            "date": date.today().isoformat(),
            "simtool": manifest.engine_version,
            "device": manifest.device,
            "device_name": manifest.device_name,
            "models": manifest.models,
            "algorithm": manifest.algorithm,
            "sl": manifest.sl,
            "concurrency": manifest.concurrency,
            "requests": len(traces[0].table("requests")),
            **manifest.controller,
            "others_share": None if load.worst is None else load.to_dict()["others_share"],
        }
        return {"setting": setting, **self.fidelity.to_dict()}


def prompt_sets(
    asked: PromptSource, target: Path, uses: Sequence[str]
) -> tuple[dict[str, list[Prompt]], dict[str, int | None]]:
    """Return a set of prompts a use, none in two of them, and the seed of each.

    Drawn prompts: each use has the next seed. From a file: its first prompts are the first use's, the next the other's.
    Raises UsageError when the file holds too few.
    """
    if asked.drawn_with is not None:
        seeds = {use: asked.seed + i for i, use in enumerate(uses)}
        return {use: replace(asked, seed=seed).load(target) for use, seed in seeds.items()}, dict(seeds)
    whole = replace(asked, count=None).load(target)
    count = asked.count or len(whole) // len(uses)
    if count * len(uses) > len(whole) or not count:
        raise UsageError(
            f"--num-prompts {count or 1} for each of {len(uses)} sets (costs are fitted on other prompts than those "
            f"judged), and the file holds {len(whole)}; ask for less, or give a longer file"
        )
    return {use: whole[i * count : (i + 1) * count] for i, use in enumerate(uses)}, dict.fromkeys(uses)


def check_room(out: Path, *, force: bool) -> None:
    """Claim the folder until the command ends; an older validation is overwritten only when told to, others never."""
    ours = (out / "validation.json").exists() or (out / "live").is_dir()
    if out.is_file() or (out.exists() and any(out.iterdir()) and not (force and ours)):
        raise UsageError(f"{out}: is in use; choose another folder, or --force over an older validation")
    check_output(out, force=True)


def record_arms(
    session: Session,
    placements: Sequence[Placement],
    controller: ControllerSettings,
    prompts: Mapping[str, Sequence[Prompt]],
    *,
    seeds: Mapping[str, int | None],
    repeats: int,
    out: Path,
) -> Runs:
    """Record every arm on every set of prompts, `repeats` times; within a repetition all take turns, step by step.

    A machine drifts between speeds by more than placements differ: only neighbours in time compare. prompts, seeds:
    by use; each set of prompts was drawn with its seed (None: a file gave them).
    """
    from simtool.engine.serving.rounds import record_rounds
    from simtool.engine.serving.session import RunPlan

    plans = {
        (use, p.name): (out / use / p.file_stem, RunPlan(prompts[use], p, controller, seeds[use]))
        for use in prompts
        for p in placements
    }
    found = record_rounds(
        session, dict(plans.values()), repeats, command=command_line(), force=True, progress=console.progress
    )
    runs: dict[str, dict[str, list[Path]]] = {use: {} for use in prompts}
    for (use, arm), (path, _) in plans.items():
        runs[use][arm] = found[path]
    return runs


def judge_arms(
    runs: Runs, source: Path, placements: Sequence[Placement], controller: ControllerSettings, *, out: Path
) -> Validation:
    """Calibrate on runs["fit"], replay each placement from `source`, and judge it on runs["live"].

    Without runs to fit on the costs come from the live runs themselves: then only tokens can be judged.
    """
    from simtool.analysis.fidelity.fidelity import judge
    from simtool.calibrate.fit import calibrate
    from simtool.profile.storage import save_profile
    from simtool.replay.replay import replay
    from simtool.replay.scenario import Scenario
    from simtool.trace.checks.sound import open_sound

    timed = "fit" in runs
    fitted = [open_sound(path) for paths in runs["fit" if timed else "live"].values() for path in paths]
    draws = _DRAWS if timed else 0
    today = date.today().isoformat()
    profile = calibrate(fitted, name=out.name, command="simtool validate", created=today, refits=draws)
    save_profile(profile, out / "profile.json")
    recorded = open_sound(source)
    concurrency = recorded.manifest.concurrency
    replayed: dict[str, Trace] = {}
    noisy: dict[str, list[Trace]] = {}
    from simtool.replay.profiling.expected import CountedReplays, expect

    known = expect([CountedReplays(recorded, concurrency, len(placements), 1 + draws, "simpy")])
    with console.progress("replaying", len(placements), known) as done:
        for placement in placements:
            path = out / "replayed" / placement.file_stem
            scenario = Scenario(placement, concurrency, controller)
            replayed[placement.name] = replay(recorded, profile, scenario).save(path, force=True)
            noisy[placement.name] = [
                replay(recorded, profile.refitted(seed), replace(scenario, noise="residual", seed=seed)).trace(path)
                for seed in range(draws)
            ]
            done(len(replayed))
    opened = {arm: [open_sound(path) for path in paths] for arm, paths in runs["live"].items()}
    return Validation(opened, replayed, profile, judge(opened, replayed, noisy))

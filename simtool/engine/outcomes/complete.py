"""The outcomes that a recording lacks, added by a teacher-forced pass, so that any placement can be replayed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import torch

from simtool.engine.devices.open import torch_device
from simtool.engine.models.checkpoint import load_draft, load_target
from simtool.engine.models.identity import identity
from simtool.engine.models.shipped import SHIPPED
from simtool.engine.outcomes.estimate import FillEstimate, estimate, speed
from simtool.engine.outcomes.teacher_forced import TeacherForcedPass
from simtool.engine.runner.spec import DTYPES, SamplingConfig
from simtool.errors import TraceError, UsageError
from simtool.files.reading import quoted
from simtool.progress import Say, ShowProgress, unsaid, unshown
from simtool.trace.checks.sound import open_sound
from simtool.trace.outcome_coverage import OutcomeCoverage, add_outcomes, requests_without_outcomes
from simtool.trace.rounding_ties import Choice, judge_flip
from simtool.trace.trace import Trace


def complete_outcomes(
    path: Path,
    target: Path | None = None,
    draft: Path | None = None,
    *,
    device: str = "cpu",
    say: Say = unsaid,
    progress: ShowProgress = unshown,
) -> OutcomeCoverage:
    """Add the drafter's outcome at every anchor that lacks one, and return what the trace then holds.

    A few requests at a time, so that an interrupt loses little. target, draft: the folders that the trace was recorded
    with; default: the shipped ones. device: where the pass runs; what it will take is said before it starts. Raises
    UsageError for other models, TraceError for a trace that is no live recording with its prompts whose texts follow
    from these, DeviceError for a device that is not there.
    """
    opened = open_sound(path)
    todo = requests_without_outcomes(opened)
    started, flips = time.perf_counter(), dict[Choice, float]()
    if todo:
        teacher_forced = _open_pass(opened, target, draft, device)
        keys = opened.manifest.run.sample_keys
        _check_ids(opened, todo, teacher_forced.target.config.vocab_size)
        say(f"{_estimate(teacher_forced, todo)}, on {device}")
        with progress("filling outcomes", len(todo)) as done:
            for first in range(0, len(todo), 16):
                chunk = todo[first : first + 16]
                filled = {
                    name: teacher_forced.outcomes(prompt, output, key=keys.get(name, 0))
                    for name, prompt, output in chunk
                }
                flips |= {Choice(name, at): gap for name, each in filled.items() for at, gap in each.flips.items()}
                opened = add_outcomes(opened, filled)
                done(first + len(chunk))
    if flips:
        tokens = sum(len(output) for _, _, output in todo)
        widest = judge_flip(opened, *max(flips.items(), key=lambda flip: flip[1]))
        say(f"{len(flips)} of {tokens} output tokens are not what the target chooses here; widest {widest}")
    report = OutcomeCoverage.of(opened)
    say(f"{report} ({time.perf_counter() - started:.1f} s)")
    return report


def _dtype(opened: Trace) -> torch.dtype:
    name = opened.manifest.run.dtype or "float32"
    if name not in DTYPES:
        raise TraceError(f"{opened.path}: details.dtype is {quoted(name)}; expected one of {', '.join(DTYPES)}")
    found: torch.dtype = getattr(torch, name)
    return found


def _check_ids(opened: Trace, todo: Sequence[tuple[str, list[int], list[int]]], vocab_size: int) -> None:
    for name, prompt, output in todo:
        for token in (*prompt, *output):
            if not 0 <= token < vocab_size:
                raise TraceError(
                    f"{opened.path}: request {name} holds token id {token}, outside 0..{vocab_size - 1}; the trace is "
                    "damaged, or its ids are another tokenizer's"
                )


def _estimate(teacher_forced: TeacherForcedPass, todo: Sequence[tuple[str, list[int], list[int]]]) -> FillEstimate:
    target, draft, drafts = teacher_forced.target, teacher_forced.draft, teacher_forced.drafts
    lengths = [(len(prompt), len(output)) for _, prompt, output in todo]
    return estimate(target, draft, drafts, lengths, speed(target.lm_head.weight))


def _open_pass(opened: Trace, target: Path | None, draft: Path | None, device: str) -> TeacherForcedPass:
    """Load the models that the trace was recorded with; refuse others, whose outcomes would be wrong."""
    manifest = opened.manifest
    if target is None or draft is None:
        shipped = manifest.models.get("draft", {}).get("id", "")
        target, draft = SHIPPED / "target", SHIPPED / shipped
    for role, folder in (("target", target), ("draft", draft)):
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such {role} folder; give --target and --draft as when it was recorded")
        if identity(folder) != manifest.models.get(role):
            raise UsageError(f"{folder}: not the {role} that {opened.path} was recorded with; give that one")
    torch.set_num_threads(1)  # two threads meet at a barrier in every small op, and a busy core makes both wait
    dtype = _dtype(opened)
    where = torch_device(device)
    loaded = load_target(target, dtype, where)
    return TeacherForcedPass(loaded, load_draft(draft, loaded, dtype, where), manifest.sl, _sampling(opened))


def _sampling(opened: Trace) -> SamplingConfig:
    """How the recorded tokens were chosen; raises TraceError where a sampled request's random numbers are not known."""
    told = opened.manifest.sampling
    if not told.get("temperature"):
        return SamplingConfig()
    names, keys = opened.table("requests")["request_id"].to_list(), opened.manifest.run.sample_keys
    if unknown := [name for name in names if name not in keys]:
        raise TraceError(f"{opened.path}: details.sample_keys lacks {unknown[0]}, so what it drew is not known")
    known = {name: told[name] for name in ("temperature", "top_k", "top_p", "seed", "accept") if name in told}
    return SamplingConfig(**known)  # type: ignore[arg-type]  # the manifest's own were checked when it was read

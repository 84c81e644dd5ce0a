"""Rounds of interleaved runs: in each every plan runs once, all taking turns step by step on one device.

A machine drifts between speeds by more than placements differ: only neighbours in time compare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from simtool.engine.serving.session import RunPlan, Session
from simtool.progress import ShowProgress, unshown


def record_rounds(
    session: Session,
    plans: Mapping[Path, RunPlan],
    repeats: int,
    *,
    command: str,
    force: bool = False,
    progress: ShowProgress = unshown,
) -> dict[Path, list[Path]]:
    """Record every plan `repeats` times, into its path with -0, -1, ... behind the name; returns those of each plan.

    Every plan gets an equal share of the session's slots and KV blocks. Plans of one placement are warmed up once.
    """
    first = {plan.placement.name: plan for plan in reversed(list(plans.values()))}
    token_s = {name: session.warm_up(plan) for name, plan in first.items()}
    takes = session.expected([(plan, token_s[plan.placement.name]) for plan in plans.values()], repeats)
    runs: dict[Path, list[Path]] = {path: [] for path in plans}
    each = sum(prompt.max_new_tokens for plan in plans.values() for prompt in plan.prompts)
    with progress(f"recording {repeats} x {len(plans)} live runs", repeats * each, takes) as done:
        for repeat in range(repeats):
            jobs = [(path.with_name(f"{path.name}-{repeat}"), plan) for path, plan in plans.items()]
            told = partial(_further, done, repeat * each)
            session.record_interleaved(jobs, force=force, details={"command": command}, progress=told)
            for path, (folder, _) in zip(plans, jobs, strict=True):
                runs[path].append(folder)
    return runs


def _further(done: Callable[[int], None], before: int, count: int) -> None:
    done(before + count)

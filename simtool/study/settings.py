"""One setting a concurrency: what a study of a trace replays placements under."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from simtool.profile.profile import Profile
from simtool.progress import Expected
from simtool.replay.compiled.kernel import default_simulator
from simtool.replay.controller_options import ControllerOptions
from simtool.replay.profiling.expected import CountedReplays
from simtool.replay.profiling.expected import expect as expect_replays
from simtool.study.full_batch import workload
from simtool.study.runner import Setting
from simtool.study.sweep import seeds_of
from simtool.trace.trace import Trace


def settings_of(
    source: Trace,
    profile: Profile,
    concurrencies: Sequence[int],
    waves: int | None = None,
    *,
    seeds: int = 0,
    noise_only: bool = False,
    controller: ControllerOptions | None = None,
) -> list[Setting]:
    """Return one setting a concurrency; raises UsageError when the requests cannot fill it, or refits the seeds."""
    return [
        Setting(
            source=workload(source, concurrency, waves),
            profile=profile,
            concurrency=concurrency,
            seeds=seeds_of(seeds),
            fit_error=not noise_only,
            controller=controller or ControllerOptions(),
        )
        for concurrency in concurrencies
    ]


def expect(work: Iterable[tuple[Setting, int]], processes: int) -> Expected:
    """Return what it takes to replay so many placements under each setting, every one with the setting's seeds."""
    return expect_replays(
        CountedReplays(
            setting.source,
            setting.concurrency,
            placements,
            max(len(setting.seeds), 1),
            setting.simulator or default_simulator(),
            processes,
        )
        for setting, placements in work
    )

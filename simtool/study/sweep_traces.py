"""A sweep from traces: every placement at every concurrency on every trace, at given costs or each trace's own."""

from __future__ import annotations

from collections.abc import Sequence

from simtool.profile.profile import Profile
from simtool.replay.as_recorded import own_costs
from simtool.step.placement import PULL_REQUEST_ARMS, Placement, resolve_placement
from simtool.study.runner import Progress, silent
from simtool.study.settings import settings_of
from simtool.study.sweep import Grid, Swept, sweep
from simtool.trace.trace import Trace


def sweep_traces(
    traces: Sequence[Trace],
    placements: Sequence[Placement | str] = PULL_REQUEST_ARMS,
    concurrencies: Sequence[int] | None = None,
    *,
    profile: Profile | None = None,
    seeds: int = 0,
    processes: int = 1,
    progress: Progress = silent,
) -> Swept:
    """Replay every placement at every concurrency on every trace; the table has a row a replay (see `sweep`).

    placements: themselves, names, or TOML files; default: the four arms of pull request 2280. concurrencies: default:
    each trace's own. profile: costs; default: each trace's own. seeds: replays with noise of each order, for
    intervals; 0: one without noise. processes: how many to use. Raises UsageError when the requests of a trace cannot
    fill a batch, or there are more seeds than the costs have refits.

    >>> sweep_traces([open_trace("a")], ["static", "lag"], [1, 8]).table  # doctest: +SKIP
    """
    arms = [resolve_placement(each) if isinstance(each, str) else each for each in placements]
    settings = [
        setting
        for trace in traces
        for setting in settings_of(
            trace, profile or own_costs(trace, refits=seeds), concurrencies or [trace.manifest.concurrency], seeds=seeds
        )
    ]
    return sweep(Grid(settings, arms), processes=processes, progress=progress)

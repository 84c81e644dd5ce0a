"""A cell's figures from the compiled simulator: no table is made, and what replays share is worked out once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from simtool.analysis.comparison.runs import distinct_prompts
from simtool.errors import UsageError
from simtool.profile.profile import Profile
from simtool.replay.caveats import Caveats, Visits
from simtool.replay.compiled.plan import PREFILL
from simtool.replay.compiled.replays import CompiledReplays, PriceLists
from simtool.replay.compiled.run import CompiledRun
from simtool.replay.replay import as_run, caveats_of
from simtool.replay.request_queue import RequestQueue
from simtool.replay.scenario import Scenario
from simtool.trace.trace import Trace
from simtool.units import NS_PER_S

_Made = TypeVar("_Made")
_KEPT_SOURCES = 4  # the jobs of a study come source by source
_KEPT_REFITS = 64
_KEPT_RUNS = 512


@dataclass(frozen=True)
class Figures:
    """Of decode steps at full occupancy, as a cell has them. tokens, duration_ns: [steps]; the others over all.

    whole_run_tokens_per_s: of all steps. cycles: distinct prompts over the full batch.
    """

    tokens: NDArray[np.int64]
    duration_ns: NDArray[np.int64]
    full_batch: int
    sequence_steps: int
    offered: int
    accepted: int
    idle_ns: int
    whole_run_tokens_per_s: float
    cycles: float | None
    caveats: Caveats


class _Kept(Generic[_Made]):
    """What was last made, under keys of identities; beside each, the values that thereby keep theirs."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: dict[tuple[int, ...], tuple[object, _Made]] = {}

    def get(self, key: tuple[int, ...], of: object, make: Callable[[], _Made]) -> _Made:
        if key not in self._made:
            while len(self._made) >= self._most:
                del self._made[next(iter(self._made))]
            self._made[key] = of, make()
        return self._made[key][1]


class CompiledFigures:
    """Replays one scenario after the other and remembers what they have in common."""

    def __init__(self) -> None:
        self._prices = PriceLists()
        self._replays = _Kept[CompiledReplays](_KEPT_SOURCES)
        self._prompts = _Kept[int](_KEPT_SOURCES)
        self._run = _Kept[tuple[Profile, Scenario]](_KEPT_RUNS)
        self._refitted = _Kept[Profile](_KEPT_REFITS)

    def figures(self, source: Trace, profile: Profile, scenario: Scenario) -> Figures | None:
        """Return a replay's figures; None where device work outlasts its step, which takes tables to tell.

        Raises TraceError or ProfileError like a replay, UsageError where no step decodes.
        """
        profile, scenario = self._as_run(profile, scenario)
        run = self._replays_of(source).run(profile, scenario)
        if run.times.spilled[0]:
            return None
        steps, times, full = run.plan.steps, run.times, _full(run, source)
        duration_ns = (times.end - times.start)[full]
        visits = Visits(run.looked_up, run.substituted)
        full_batch = int(steps.batch[full[0]])
        return Figures(
            tokens=steps.tokens[full],
            duration_ns=duration_ns,
            full_batch=full_batch,
            sequence_steps=int(steps.batch[full].sum()),
            offered=int(steps.offered[full].sum()),
            accepted=int(steps.accepted[full].sum()),
            idle_ns=int(duration_ns.sum() - times.busy[full].sum()),
            whole_run_tokens_per_s=_whole_run(run),
            cycles=self._prompts_of(run.queue) / full_batch,
            caveats=caveats_of(source, profile, scenario, visits, run.extrapolated),
        )

    def refitted(self, profile: Profile, seed: int) -> Profile:
        """Return a profile at a refit; making one takes longer than timing a plan at its costs."""
        return self._refitted.get((id(profile), seed), profile, lambda: profile.refitted(seed))

    def _as_run(self, profile: Profile, scenario: Scenario) -> tuple[Profile, Scenario]:
        """Costs and scenario as the machine runs them, worked out once a profile and placement."""
        of = profile, scenario.placement
        costs, run = self._run.get((id(of[0]), id(of[1])), of, lambda: as_run(profile, scenario))
        return costs, replace(scenario, placement=run.placement)

    def _prompts_of(self, queue: RequestQueue) -> int:
        return self._prompts.get((id(queue),), queue, lambda: distinct_prompts(queue.table))

    def _replays_of(self, source: Trace) -> CompiledReplays:
        return self._replays.get((id(source),), source, lambda: CompiledReplays(source, self._prices))


def _whole_run(run: CompiledRun) -> float:
    """Tokens per second of all steps, prefills too."""
    return int(run.plan.steps.tokens.sum()) * NS_PER_S / int(run.times.end.max() - run.times.start.min())


def _full(run: CompiledRun, source: Trace) -> NDArray[np.int64]:
    """The decode steps at the largest batch."""
    steps = run.plan.steps
    decode = steps.kind != PREFILL
    if not decode.any():
        raise UsageError(f"{source.path}: every request emits one token, so no step decodes; record longer outputs")
    return np.flatnonzero(decode & (steps.batch == steps.batch[decode].max())).astype(np.int64)

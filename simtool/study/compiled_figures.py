"""A cell's figures from the compiled simulator: no table is made, and what replays share is worked out once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
from simtool.step.placement import Placement
from simtool.trace.trace import Trace
from simtool.units import NS_PER_S

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
    cycles: float
    caveats: Caveats


@dataclass
class CompiledFigures:
    """Replays one scenario after the other and remembers what they have in common."""

    _prices: PriceLists = field(default_factory=PriceLists)
    _replays: dict[int, CompiledReplays] = field(default_factory=dict)
    _prompts: dict[int, tuple[RequestQueue, int]] = field(default_factory=dict)
    _run: dict[tuple[int, int], tuple[Profile, Placement, Profile, Placement]] = field(default_factory=dict)
    _refitted: dict[tuple[int, int], tuple[Profile, Profile]] = field(default_factory=dict)

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
        key = (id(profile), seed)
        if key not in self._refitted:
            while len(self._refitted) >= _KEPT_REFITS:
                del self._refitted[next(iter(self._refitted))]
            self._refitted[key] = profile, profile.refitted(seed)  # the profile keeps its identity
        return self._refitted[key][1]

    def _as_run(self, profile: Profile, scenario: Scenario) -> tuple[Profile, Scenario]:
        """Costs and scenario as the machine runs them, worked out once a profile and placement."""
        asked = scenario.placement
        key = (id(profile), id(asked))
        if key not in self._run:
            while len(self._run) >= _KEPT_RUNS:
                del self._run[next(iter(self._run))]
            costs, run = as_run(profile, scenario)
            self._run[key] = profile, asked, costs, run.placement  # profile and placement keep their identity
        _, _, costs, placement = self._run[key]
        return costs, replace(scenario, placement=placement)

    def _prompts_of(self, queue: RequestQueue) -> int:
        if id(queue) not in self._prompts:
            while len(self._prompts) >= _KEPT_SOURCES:
                del self._prompts[next(iter(self._prompts))]
            self._prompts[id(queue)] = queue, distinct_prompts(queue.table)  # the queue keeps its identity
        return self._prompts[id(queue)][1]

    def _replays_of(self, source: Trace) -> CompiledReplays:
        if id(source) not in self._replays:
            while len(self._replays) >= _KEPT_SOURCES:
                del self._replays[next(iter(self._replays))]
            self._replays[id(source)] = CompiledReplays(source, self._prices)  # the source keeps its identity
        return self._replays[id(source)]


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

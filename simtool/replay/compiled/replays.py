"""Replays of one source by the kernels: what is served is read once, and where the clock has no say planned once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simtool.errors import ProfileError
from simtool.profile.profile import Profile
from simtool.replay.admission import make_scheduler
from simtool.replay.compiled.clock import Times, make_machine, make_times, time_all
from simtool.replay.compiled.controller import make_rules
from simtool.replay.compiled.open_loop import plan_in_time
from simtool.replay.compiled.plan import FULL, PREFILL, PRUNED, Plan, cut, room_for
from simtool.replay.compiled.planner import DONE, ROW, STEP, Task, Terms, make_state, plan_all
from simtool.replay.compiled.program import Program, make_program
from simtool.replay.compiled.run import CompiledRun
from simtool.replay.compiled.served import Served, serve
from simtool.replay.compiled.sizes import size_tables
from simtool.replay.prices.price_list import PriceList
from simtool.replay.prices.step_program import compile_step
from simtool.replay.request_queue import RequestQueue, queue_requests
from simtool.replay.scenario import Arrivals, OutcomeMode, Scenario
from simtool.step.graph_buckets import GraphBuckets
from simtool.step.ops import Op
from simtool.step.placement import PREFILL_ORDER, Placement
from simtool.step.scheduler import Scheduler
from simtool.trace.trace import Trace

Floats = NDArray[np.float64]

_NO_LUCK = np.zeros(0, np.float64)
_KEPT = 512
_ServedKey = tuple[OutcomeMode, Arrivals, int | None, tuple[float, ...]]


@dataclass(frozen=True)
class _Planned:
    """A plan as far as the outcomes go. lacking: the place of the anchor that ended it too early; DONE: none did."""

    plan: Plan
    lacking: int


@dataclass
class PriceLists:
    """Prices at hand: what replays of any source at the same costs share."""

    _known: dict[tuple[int, tuple[Op, ...], int], tuple[Profile, PriceList]] = field(default_factory=dict)
    _programs: dict[tuple[bool, tuple[tuple[int, int], ...]], tuple[Mapping[int, PriceList], Program]] = field(
        default_factory=dict
    )

    def get(self, profile: Profile, placement: Placement, kind: int) -> PriceList:
        """Return the prices of a kind of step, as `price_list`."""
        key = (id(profile), _ops(placement, kind), kind)
        if key not in self._known:
            while len(self._known) >= _KEPT:
                del self._known[next(iter(self._known))]
            self._known[key] = (
                profile,
                price_list(profile, placement, kind),
            )  # with the profile, whose identity it needs
        return self._known[key][1]

    def program(self, prices: Mapping[int, PriceList], executors: Sequence[str], *, noisy: bool) -> Program:
        """Return the program of kinds of step at prices that `get` gave, as `make_program`."""
        key = noisy, tuple((kind, id(each)) for kind, each in prices.items())
        if key not in self._programs:
            while len(self._programs) >= _KEPT:
                del self._programs[next(iter(self._programs))]
            # with the prices, whose identity it needs
            self._programs[key] = prices, make_program(prices, executors, noisy=noisy)
        return self._programs[key][1]


@dataclass
class CompiledReplays:
    """Replays of one source. Scenarios and profiles may be any; what they share is worked out once."""

    source: Trace
    prices: PriceLists = field(default_factory=PriceLists)
    _queues: dict[_ServedKey, tuple[RequestQueue, Served]] = field(default_factory=dict)
    _schedulers: dict[tuple[int, int, int | None], Scheduler] = field(default_factory=dict)
    _plans: dict[object, _Planned] = field(default_factory=dict)

    def run(self, profile: Profile, scenario: Scenario, *, events: bool = False) -> CompiledRun:
        """Replay the source; events: keep the times of each op and work too.

        Raises TraceError when the trace lacks what the scenario needs, ProfileError when the profile lacks a cost.
        """
        queue, served = self._serve(scenario)
        terms = self._terms_of(queue, scenario)
        luck = served.luck(scenario.seed) if scenario.noise == "residual" else _NO_LUCK
        if served.at_once:
            planned = self._plan(served, terms, scenario, profile.graphs)
        else:
            planned = _plan_open(served, terms, profile, scenario.placement, luck)
        kinds = dict.fromkeys(planned.plan.steps.kind.tolist())
        prices = {kind: self.prices.get(profile, scenario.placement, kind) for kind in kinds}
        _check(planned, served)
        program = self.prices.program(prices, _executors(profile), noisy=len(luck) > 0)
        times = _times(planned.plan, program, events=events)
        time_all(program, make_machine(program), planned.plan.steps, luck, times)
        return CompiledRun(queue, planned.plan, prices, times)

    def _serve(self, scenario: Scenario) -> tuple[RequestQueue, Served]:
        seed = scenario.seed if scenario.arrivals.kind == "poisson" else None
        key = (scenario.outcomes, scenario.arrivals, seed, scenario.controller.temperatures)
        if key not in self._queues:
            queue = queue_requests(self.source, scenario)
            self._queues[key] = queue, serve(queue.outcomes)
        return self._queues[key]

    def _terms_of(self, queue: RequestQueue, scenario: Scenario) -> Terms:
        """What a plan depends on besides requests and outcomes; raises CapacityError for a request that never fits."""
        manifest, lag = self.source.manifest, scenario.placement.lag_steps
        key = (id(queue), scenario.concurrency, scenario.kv_blocks)
        if key not in self._schedulers:
            self._schedulers[key] = make_scheduler(manifest, scenario, queue.requests)
        scheduler = self._schedulers[key]
        return Terms(
            concurrency=scenario.concurrency,
            blocks=scheduler.pool.num_blocks,
            block_size=scheduler.pool.block_size,
            lookahead=scheduler.lookahead,
            drafts=manifest.sl,
            width=manifest.block_width,
            decides=scenario.placement.decides,
            lag=lag or 0,
            kept=1 - scenario.stale_loss if lag else 1.0,
            rules=make_rules(scenario.controller),
        )

    def _plan(self, served: Served, terms: Terms, scenario: Scenario, graphs: GraphBuckets) -> _Planned:
        key = (scenario.outcomes, scenario.arrivals, scenario.controller.temperatures, terms, graphs)
        if key not in self._plans:
            task = _task(served, terms, graphs)
            state, plan = make_state(task), room_for(served)
            lacking = plan_all(task, state, plan)
            self._plans[key] = _Planned(cut(plan, int(state.place[STEP]), int(state.place[ROW])), lacking)
        return self._plans[key]


def price_list(profile: Profile, placement: Placement, kind: int) -> PriceList:
    """Return the prices of a kind of step; raises ProfileError for an op or work without a cost."""
    name = "prefill" if kind == PREFILL else "decode"
    program = compile_step(name, _ops(placement, kind), profile, pruned=kind == PRUNED)
    return PriceList(program, profile.name)


def _ops(placement: Placement, kind: int) -> tuple[Op, ...]:
    return PREFILL_ORDER if kind == PREFILL else tuple(placement.ops(pruned=kind == PRUNED))


def _plan_open(served: Served, terms: Terms, profile: Profile, placement: Placement, luck: Floats) -> _Planned:
    """Plan the steps of requests that arrive over time, which takes their times too."""
    task = _task(served, terms, profile.graphs)
    state, plan = make_state(task), room_for(served)
    program = make_program(_priced(profile, placement), _executors(profile), noisy=len(luck) > 0)
    times = make_times(len(plan.steps.kind))
    lacking = plan_in_time(task, state, plan, program, make_machine(program), luck, times)
    return _Planned(cut(plan, int(state.place[STEP]), int(state.place[ROW])), lacking)


def _priced(profile: Profile, placement: Placement) -> Mapping[int, PriceList]:
    """The kinds of step that the profile can price: a prefill at least, as every replay begins with one."""
    found = {PREFILL: price_list(profile, placement, PREFILL)}
    for kind in (FULL, PRUNED) if placement.decides else (FULL,):
        try:
            found[kind] = price_list(profile, placement, kind)
        except ProfileError:
            continue
    return found


def _check(planned: _Planned, served: Served) -> None:
    """Raise TraceError for the outcome that a plan lacks."""
    if planned.lacking != DONE:
        request = int(np.searchsorted(served.requests.place_at, planned.lacking, side="right")) - 1
        raise served.outcomes.missing(request, planned.lacking - int(served.outcomes.base[request]))


def _times(plan: Plan, program: Program, *, events: bool) -> Times:
    counts = np.bincount(plan.steps.kind, minlength=len(program.events)) if events else np.zeros_like(program.events)
    return make_times(len(plan.steps.kind), int(counts @ program.events), int(counts @ program.waits))


def _task(served: Served, terms: Terms, graphs: GraphBuckets) -> Task:
    tables = size_tables(min(terms.concurrency, len(served.names)), terms.drafts, terms.width, graphs)
    return Task(served.requests, served.anchors if terms.kept == 1.0 else served.losing, terms, tables)


def _executors(profile: Profile) -> list[str]:
    return sorted(set(profile.executors.values()))

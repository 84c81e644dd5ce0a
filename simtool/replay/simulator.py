"""The replay's world: one host process and one process per device executor, on a SimPy clock of whole ns.

The host runs a step's ops in the placement's order. An op that launches puts its device work on the executors'
queues; an op that blocks waits for its last work, and one that syncs for what it reads before it launches its
kernels. Each executor takes its queue in order. That is all: overlap, bubbles and the critical path are what comes out.

Every process keeps its own time and runs ahead of the clock on what it knows already. They meet at events only where
one needs what another has yet to tell: an executor the next launch or another executor's result, the host the end of
the work that it waits for. The clock catches up with the host when a step ends. Work for the next step may still be
running then: the host goes on, and only what reads its result waits for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import simpy

from simtool.replay.prices.cost_sampler import CostSampler, PricedStep
from simtool.replay.prices.step_program import StepProgram, WaitEntry, WorkEntry
from simtool.replay.recorder import StepTimes
from simtool.replay.step_planner import StepPlan
from simtool.step.idle_effects import LastWait, idle_doublings

_T = TypeVar("_T")
_Process = Generator[simpy.Event, Any, _T]


class PlansSteps(Protocol):
    """What says which steps come next; `StepPlanner` documents it."""

    @property
    def idle(self) -> bool: ...  # noqa: D102
    def sleep_until_ns(self) -> int: ...  # noqa: D102
    def plan_ahead(self, now_ns: int) -> Sequence[StepPlan]: ...  # noqa: D102


class KeepsSteps(Protocol):
    """What keeps the steps that are done; `ReplayRecorder` documents it."""

    def add_step(  # noqa: D102
        self, plan: StepPlan, program: StepProgram, times: StepTimes, start_ns: int, end_ns: int
    ) -> None: ...
    def flush(self) -> None: ...  # noqa: D102


class Simulator:
    """Runs a batch to its end at the given prices, and tells the recorder."""

    def __init__(self, planner: PlansSteps, costs: CostSampler, recorder: KeepsSteps) -> None:
        self._planner, self._costs, self._recorder = planner, costs, recorder
        self._env = simpy.Environment()
        self._executors = {name: _Executor(self._env) for name in sorted(set(costs.profile.executors.values()))}
        self._last_wait = LastWait()
        self._last: _Step | None = None

    def run(self) -> None:
        """Run until the host has served every request."""
        for executor in self._executors.values():
            self._env.process(executor.run())
        self._env.run(until=self._env.process(self._host()))
        self._recorder.flush()

    def _host(self) -> _Process[None]:
        """Run step after step. The host's own time is at or ahead of the clock, which catches up after each step."""
        now_ns = 0
        while not self._planner.idle:
            now_ns = max(now_ns, self._planner.sleep_until_ns())
            plans = self._planner.plan_ahead(now_ns)
            for plan, priced in zip(plans, self._costs.price(plans), strict=True):
                self._last = step = _Step(self._env, priced, self._last)
                end_ns = yield from self._step(step, now_ns)
                self._recorder.add_step(plan, step.program, step.times, now_ns, end_ns)
                yield self._env.timeout(end_ns - self._env.now)
                now_ns = end_ns + priced.gap_ns

    def _step(self, step: _Step, now_ns: int) -> _Process[int]:
        """Let the ops pass on the host in order: each busy, then for an op that blocks waiting and busy again."""
        priced, times, idle = step.priced, step.times, self._last_wait.doublings
        ns, start_ns, end_ns = priced.ns, times.start_ns, times.end_ns
        for event, pre, pre_grows, works, wait in step.program.ops:
            start_ns[event] = now_ns
            pre_ns = priced.grown(pre, idle) if pre_grows else ns[pre]
            if works:
                self._launch(step, works, now_ns, pre_ns)
            now_ns += pre_ns
            if wait:
                now_ns = yield from self._wait(step, wait, now_ns)
                idle = self._last_wait.doublings
            end_ns[event] = now_ns
        for event in step.program.last_works:
            if not times.done[event]:
                yield self._told(step, event)
        return now_ns

    def _launch(self, step: _Step, works: Sequence[WorkEntry], now_ns: int, busy_ns: int) -> None:
        """Queue device work of an op that is busy for so long from now on."""
        ns, executors = step.priced.ns, self._executors
        for work in works:
            launch_ns = busy_ns + ns[work.offset]
            ready_ns = now_ns + launch_ns if launch_ns > 0 else now_ns
            executors[work.executor].queue.append((step, work, ready_ns))

    def _wait(self, step: _Step, wait: WaitEntry, start_ns: int) -> _Process[int]:
        """Wait for work and learn of its end, then be busy again; return the time after that."""
        ns, times, done_ns = step.priced.ns, step.times, 0
        for event in wait.events:
            if not times.done[event]:
                yield self._told(step, event)
            done_ns = max(done_ns, times.end_ns[event])
        for datum in wait.handed:
            done_ns = max(done_ns, step.handed_ns(datum))
        end_ns, post_ns = max(start_ns, done_ns + ns[wait.wake]), ns[wait.post]
        times.wait_start_ns.append(start_ns)
        times.wait_end_ns.append(end_ns)
        self._last_wait.waited_ns = end_ns - start_ns
        if wait.works:
            self._launch(step, wait.works, end_ns, post_ns)
        return end_ns + post_ns

    def _told(self, step: _Step, event: int) -> simpy.Event:
        """Hand over what was launched, and return what happens once the times of that work are known."""
        for executor in self._executors.values():
            executor.wake()
        return step.when_done(event)


class _Step:
    """A step under way, and who waits for which of its work. The step before it is over: its times are all known."""

    __slots__ = ("_before", "_env", "awaited", "priced", "program", "times")

    def __init__(self, env: simpy.Environment, priced: PricedStep, before: _Step | None) -> None:
        self._before = before.handing_on() if before is not None else {}
        self.priced, self.program = priced, priced.program
        self.times = StepTimes(len(priced.program.events))
        self.awaited: dict[int, simpy.Event] = {}
        self._env = env

    def handing_on(self) -> Mapping[str, int]:
        """Return when each datum of the next step is there, in ns, of those that this step launched ahead."""
        return {datum: self.times.end_ns[event] for datum, event in self.program.hands_on.items()}

    def handed_ns(self, datum: str) -> int:
        """Return when a datum was there that the step before launched ahead, in ns; behind a prefill it waits: 0."""
        return self._before.get(datum, 0)

    def when_done(self, event: int) -> simpy.Event:
        """Return what happens once the times of work that is under way are known."""
        if event not in self.awaited:
            self.awaited[event] = self._env.event()
        return self.awaited[event]


class _Executor:
    """Runs queued work in order, each once it is ready, its inputs are there, and the work before it is done."""

    def __init__(self, env: simpy.Environment) -> None:
        self.queue: deque[tuple[_Step, WorkEntry, int]] = deque()  # with when the work is ready, in ns
        self._env = env
        self._launch: simpy.Event | None = None

    def wake(self) -> None:
        """End its wait for a launch, if there was one."""
        if self._launch is not None and self.queue:
            self._launch.succeed()
            self._launch = None

    def run(self) -> _Process[None]:
        """Take work for ever."""
        queue, ran, last_start_ns, last_end_ns = self.queue, False, 0, 0
        while True:
            while not queue:
                self._launch = self._env.event()
                yield self._launch
            step, work, ready_ns = queue.popleft()
            priced, times, inputs_ns = step.priced, step.times, last_end_ns
            for event in work.after:
                if not times.done[event]:
                    yield step.when_done(event)
                inputs_ns = max(inputs_ns, times.end_ns[event])
            for datum in work.handed:
                inputs_ns = max(inputs_ns, step.handed_ns(datum))
            behind_ns = priced.ns[work.queue]
            if work.queue_grows:
                behind_ns = priced.grown(work.queue, idle_doublings(last_end_ns - last_start_ns))
            start_ns = max(ready_ns, inputs_ns + behind_ns)
            run_ns = priced.ns[work.duration]
            if work.duration_grows:
                run_ns = priced.grown(work.duration, idle_doublings(start_ns - last_start_ns) if ran else 0.0)
            ran, last_start_ns, last_end_ns = True, start_ns, start_ns + run_ns
            times.start_ns[work.event], times.end_ns[work.event], times.done[work.event] = start_ns, last_end_ns, True
            if work.event in step.awaited:
                step.awaited[work.event].succeed()

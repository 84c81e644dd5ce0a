"""The replay's world: one host process and one process per device executor, on a SimPy clock of whole ns.

The host runs a step's ops in the placement's order. An op that launches puts its device work on the executors'
queues; an op that blocks waits for its last work. Each executor takes its queue in order. That is all: overlap,
bubbles and the critical path are what comes out.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import simpy

from simtool.profile.profile import WorkCost
from simtool.replay.cost_sampler import CostSampler
from simtool.replay.recorder import HostEvent, ReplayRecorder, WorkEvent
from simtool.replay.step_planner import StepPlan, StepPlanner
from simtool.step.idle_effects import LastWait, LastWork
from simtool.step.ops import Op

_Process = Generator[simpy.Event, Any, None]


@dataclass
class _Work:
    """Device work under way. ready_ns: launched and picked up. after: work whose results it reads."""

    event: WorkEvent
    plan: StepPlan
    cost: WorkCost
    ready_ns: int
    after: tuple[_Work, ...]
    done: simpy.Event


class Simulator:
    """Runs a batch to its end at the given prices, and tells the recording."""

    def __init__(self, batch: StepPlanner, prices: CostSampler, recording: ReplayRecorder) -> None:
        self._batch, self._prices, self._recording = batch, prices, recording
        self._env = simpy.Environment()
        self._executors = prices.profile.executors
        self._queues = {name: simpy.Store(self._env) for name in sorted(set(self._executors.values()))}
        self._past = LastWait()
        self._flow = 0

    def run(self) -> None:
        """Run until the host has served every request."""
        for queue in self._queues.values():
            self._env.process(self._executor(queue))
        self._env.run(until=self._env.process(self._host()))

    @property
    def _now_ns(self) -> int:
        return int(self._env.now)  # it starts at 0 and every delay is a whole number, so nothing is cut off

    def _host(self) -> _Process:
        while not self._batch.scheduler.idle:
            yield from self._until(self._batch.sleep_until_ns())
            plan = self._batch.plan(self._now_ns)
            yield from self._step(plan)
            yield self._env.timeout(self._prices.ns("loop_gap", self._prices.profile.loop_gap, plan))

    def _step(self, plan: StepPlan) -> _Process:
        start_ns = self._now_ns
        giver: dict[str, _Work] = {}
        for op in plan.ops:
            yield from self._run(plan, op, giver)
        self._recording.add_step(plan, start_ns, self._now_ns, self._batch.commit(plan))

    def _run(self, plan: StepPlan, op: Op, giver: dict[str, _Work]) -> _Process:
        """Let one op pass on the host: busy, then for an op that blocks waiting and busy again."""
        self._flow += 1
        event = HostEvent(op.name, self._flow, self._now_ns)
        cost = self._prices.host(plan.kind, op.name)
        pre_ns = self._prices.ns(op.name, cost.pre, plan, self._past.features())
        works = self._launch(plan, op, pre_ns, [giver[need] for need in op.needs if need in giver])
        if works:
            giver.update(dict.fromkeys(op.gives, works[-1]))
        yield self._env.timeout(pre_ns)
        if op.blocks:
            event.wait_start_ns = self._now_ns
            yield works[-1].done
            wake_ns = self._prices.ns(op.name, cost.wake, plan) if cost.wake else 0
            yield from self._until(works[-1].event.end_ns + wake_ns)
            event.wait_end_ns = self._now_ns
            self._past.waited_ns = event.wait_end_ns - event.wait_start_ns
            yield self._env.timeout(self._prices.ns(op.name, cost.post, plan) if cost.post else 0)
        event.end_ns = self._now_ns
        self._recording.add_host(event)

    def _launch(self, plan: StepPlan, op: Op, pre_ns: int, after: list[_Work]) -> list[_Work]:
        """Queue an op's device work in launch order; each is behind `after` and behind the op's earlier work."""
        launches = self._prices.host(plan.kind, op.name).launches
        works: list[_Work] = []
        for work in op.works:
            offset_ns = self._prices.offset_ns(op.name, launches[work.name], plan) if work.name in launches else 0
            launched = _Work(
                WorkEvent(work.name, work.lane.value, self._flow),
                plan,
                self._prices.work(plan.kind, work.name, op.name),
                self._now_ns + max(0, pre_ns + offset_ns),
                (*after, *works),
                self._env.event(),
            )
            self._queues[self._executors[work.lane]].put(launched)
            works.append(launched)
        return works

    def _executor(self, queue: simpy.Store) -> _Process:
        """Run queued work in order, each once it is ready, its inputs are there, and the work before it is done."""
        past = LastWork()
        while True:
            busy_until_ns = self._now_ns
            work: _Work = yield queue.get()
            for earlier in work.after:
                yield earlier.done
                busy_until_ns = max(busy_until_ns, earlier.event.end_ns)
            name = work.event.name
            queue_ns = self._prices.ns(name, work.cost.queue, work.plan, past.behind())
            yield from self._until(max(work.ready_ns, busy_until_ns + queue_ns))
            work.event.start_ns = self._now_ns
            yield self._env.timeout(self._prices.ns(name, work.cost.duration, work.plan, past.at(self._now_ns)))
            work.event.end_ns = self._now_ns
            past = LastWork(work.event.start_ns, work.event.end_ns)
            self._recording.add_work(work.event)
            work.done.succeed()

    def _until(self, time_ns: int) -> _Process:
        if time_ns > self._now_ns:
            yield self._env.timeout(time_ns - self._now_ns)

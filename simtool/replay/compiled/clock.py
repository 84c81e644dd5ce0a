"""Times of planned steps: the max-plus recurrence that the simulator's processes come to.

The host runs ahead; each executor takes its work in launch order. So when work starts follows from what came before
it, and one pass over a step's ops in host order yields all of its times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simtool.replay.compiled.kernel import kernel, part
from simtool.replay.compiled.plan import Steps
from simtool.replay.compiled.prices import Basis, cost_ns, offset_ns
from simtool.replay.compiled.program import Program

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Places in Machine.host: the host's clock and how long its last wait was, in ns; events and waits of the steps before,
#: device works of this one.
NOW, WAITED, EVENTS, WAITS, SPANS = 0, 1, 2, 3, 4


class Machine(NamedTuple):
    """A machine under way. host: see above. began, ended: of the last work of each executor, in ns; ran: it had any.

    done: ends of the step's events. spans: its device work as start and end, [works, 2].
    """

    host: Ints
    began: Ints
    ended: Ints
    ran: NDArray[np.bool_]
    done: Ints
    spans: Ints


class Times(NamedTuple):
    """In ns. start, end, tokens, busy: of each step on the host; when its tokens were there; how long the device ran.

    spilled: whether device work outlasted a step, so that `busy` leaves some out. The others: of each event and each
    wait, in the order of the programs' events; empty where nobody asks for them.
    """

    start: Ints
    end: Ints
    tokens: Ints
    busy: Ints
    spilled: NDArray[np.bool_]
    event_start: Ints
    event_end: Ints
    wait_start: Ints
    wait_end: Ints


def make_machine(program: Program) -> Machine:
    """Return a machine that has just started."""
    return Machine(
        host=np.zeros(5, np.int64),
        began=np.zeros(program.executors, np.int64),
        ended=np.zeros(program.executors, np.int64),
        ran=np.zeros(program.executors, np.bool_),
        done=np.zeros(int(program.events.max()), np.int64),
        spans=np.zeros((len(program.works.event), 2), np.int64),
    )


def make_times(steps: int, events: int = 0, waits: int = 0) -> Times:
    """Return room for the times of so many steps, events and waits."""
    return Times(
        start=np.empty(steps, np.int64),
        end=np.empty(steps, np.int64),
        tokens=np.empty(steps, np.int64),
        busy=np.empty(steps, np.int64),
        spilled=np.zeros(1, np.bool_),
        event_start=np.empty(events, np.int64),
        event_end=np.empty(events, np.int64),
        wait_start=np.empty(waits, np.int64),
        wait_end=np.empty(waits, np.int64),
    )


@part
def _run_work(
    program: Program, machine: Machine, work: int, basis: Basis, start_ns: int, busy_ns: int, times: Times
) -> None:
    """Run one piece of device work behind what is before it on its executor.

    start_ns, busy_ns: from when on and for how long the host is busy that launches it.
    """
    works, prices, host = program.works, program.prices, machine.host
    executor, event = works.executor[work], works.event[work]
    ready = start_ns + max(0, busy_ns + offset_ns(prices, works.offset[work], basis, 0))
    began, inputs = machine.began[executor], machine.ended[executor]
    behind = cost_ns(prices, works.queue[work], basis, inputs - began)
    for i in range(works.after_at[work], works.after_at[work + 1]):
        inputs = max(inputs, machine.done[works.after[i]])
    start = max(ready, inputs + behind)
    since = start - began if machine.ran[executor] else 0
    end = start + cost_ns(prices, works.duration[work], basis, since)
    machine.began[executor], machine.ended[executor], machine.ran[executor] = start, end, True
    machine.done[event] = end
    machine.spans[host[SPANS], 0], machine.spans[host[SPANS], 1] = start, end
    host[SPANS] += 1
    if len(times.event_start):
        times.event_start[host[EVENTS] + event], times.event_end[host[EVENTS] + event] = start, end


@part
def _busy_ns(spans: Ints, count: int, end_ns: int) -> int:
    """Return how long the union of the first `count` spans lasts, up to a time; sorts them by their start."""
    for i in range(1, count):
        start, end = spans[i, 0], spans[i, 1]
        j = i - 1
        while j >= 0 and spans[j, 0] > start:
            spans[j + 1, 0], spans[j + 1, 1] = spans[j, 0], spans[j, 1]
            j -= 1
        spans[j + 1, 0], spans[j + 1, 1] = start, end
    busy, reach = 0, 0
    for i in range(count):
        end = min(spans[i, 1], end_ns)
        if end > reach:
            busy += end - max(spans[i, 0], reach)
            reach = end
    return busy


@part
def time_step(program: Program, machine: Machine, steps: Steps, step: int, luck: Floats, times: Times) -> None:
    """Run one planned step. luck: a draw a block of anchors; empty without noise."""
    ops, prices, host = program.ops, program.prices, machine.host
    kind = steps.kind[step]
    draw = luck[steps.draw_at[step]] if len(luck) else -1.0
    basis = Basis(steps.sizes[step], draw, steps.draw_offset[step])
    keeps = len(times.event_start) > 0
    now = max(host[NOW], steps.not_before_ns[step])
    times.start[step], host[SPANS] = now, 0
    for op in range(program.op_at[kind], program.op_at[kind + 1]):
        start, early, late = now, ops.work_at[op], ops.late_at[op]
        pre = cost_ns(prices, ops.pre[op], basis, host[WAITED])
        for work in range(early, late):
            _run_work(program, machine, work, basis, start, pre, times)
        now = start + pre
        if ops.waits[op]:
            wait_start, done = now, 0
            for i in range(ops.await_at[op], ops.await_at[op + 1]):
                done = max(done, machine.done[ops.awaited[i]])
            wait_end = max(now, done + cost_ns(prices, ops.wake[op], basis, 0))
            host[WAITED] = wait_end - wait_start
            post = cost_ns(prices, ops.post[op], basis, 0)
            for work in range(late, ops.work_at[op + 1]):
                _run_work(program, machine, work, basis, wait_end, post, times)
            now = wait_end + post
            if ops.tells[op]:
                times.tokens[step] = wait_end
            if keeps:
                times.wait_start[host[WAITS]], times.wait_end[host[WAITS]] = wait_start, wait_end
                host[WAITS] += 1
        if keeps:
            times.event_start[host[EVENTS] + ops.event[op]] = start
            times.event_end[host[EVENTS] + ops.event[op]] = now
    times.end[step], times.busy[step] = now, _busy_ns(machine.spans, host[SPANS], now)
    for executor in range(program.executors):
        times.spilled[0] |= machine.ended[executor] > now
    host[EVENTS] += program.events[kind]
    host[NOW] = now + cost_ns(prices, program.gap[kind], basis, 0)


@kernel
def time_all(program: Program, machine: Machine, steps: Steps, luck: Floats, times: Times) -> None:
    """Run all planned steps, one after the other."""
    for step in range(len(steps.kind)):
        time_step(program, machine, steps, step, luck, times)

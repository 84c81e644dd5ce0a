"""Planning and timing together, where requests arrive over time: who is admitted then depends on the clock."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simtool.replay.compiled.clock import NOW, Machine, Times, time_step
from simtool.replay.compiled.kernel import kernel
from simtool.replay.compiled.plan import Plan
from simtool.replay.compiled.planner import DONE, RUNNING, STEP, WAITING, State, Task, idle, plan_step
from simtool.replay.compiled.program import Program

Floats = NDArray[np.float64]


@kernel
def plan_in_time(
    task: Task, state: State, plan: Plan, program: Program, machine: Machine, luck: Floats, times: Times
) -> int:  # fmt: skip
    """Plan each step when the one before it is over, and run it; the plan keeps how long it slept for an arrival.

    Return as `plan_step`. It stops at a kind of step without a program, which is then the last of the plan.
    """
    place, kinds = state.place, plan.steps.kind
    while not idle(task, state):
        arrival_ns = task.requests.arrival_ns[place[WAITING]] if place[RUNNING] == 0 else 0
        step = place[STEP]
        lacking = plan_step(task, state, plan, max(machine.host[NOW], arrival_ns))
        if lacking != DONE:
            return lacking
        plan.steps.not_before_ns[step] = arrival_ns
        if program.op_at[kinds[step]] == program.op_at[kinds[step] + 1]:
            return DONE
        time_step(program, machine, plan.steps, step, luck, times)
    return DONE

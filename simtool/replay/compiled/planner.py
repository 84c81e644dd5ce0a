"""Plans steps: `replay/step_planner.py` and `step/scheduler.py` over arrays.

Here too nothing takes time, and in a closed loop nothing reads the clock: one plan then serves every order of the
host's work, every seed of the noise and every change of a cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simtool.replay.compiled.controller import Bench, Rules, choose, fill_paths, make_bench
from simtool.replay.compiled.kernel import kernel, part
from simtool.replay.compiled.plan import FULL, PREFILL, PRUNED, Plan
from simtool.replay.compiled.served import Anchors, Requests
from simtool.replay.compiled.sizes import DecodeTotals, SizeTables, fill_decode, fill_prefill
from simtool.replay.prices.cost_sampler import BLOCK_TOKENS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: What `plan_step` and those above it return besides the place of an anchor that is not known: all is well.
DONE = -1
#: Places in State.place: the first request that waits, how many run, KV blocks free, steps and rows planned.
WAITING, RUNNING, FREE, STEP, ROW = 0, 1, 2, 3, 4


class Terms(NamedTuple):
    """What a plan depends on besides requests and outcomes. blocks, block_size: KV cache, in blocks and tokens.

    decides: a controller runs, with the confidence of `lag` steps ago. kept: share of its accepted drafts that a
    stale decision keeps, in a what-if; 1: all.
    """

    concurrency: int
    blocks: int
    block_size: int
    lookahead: int
    drafts: int
    width: int
    decides: bool
    lag: int
    kept: float
    rules: Rules


class Task(NamedTuple):
    """All that a plan is made from."""

    requests: Requests
    anchors: Anchors
    terms: Terms
    tables: SizeTables


class State(NamedTuple):
    """A run under way. running: requests in batch order, [slots]. slot, output (tokens), decoded (steps): by request.

    held: blocks of each request's last `lag` steps. prefix, fresh: of those that run, in batch order.
    """

    place: Ints
    running: Ints
    taken: NDArray[np.bool_]
    slot: Ints
    output: Ints
    decoded: Ints
    held: Ints
    prefix: Ints
    fresh: NDArray[np.bool_]
    bench: Bench


def make_state(task: Task) -> State:
    """Return the state before the first step."""
    terms = task.terms
    count, slots = len(task.requests.total), terms.concurrency
    return State(
        place=np.array([0, 0, terms.blocks, 0, 0], np.int64),
        running=np.zeros(slots, np.int64),
        taken=np.zeros(slots, np.bool_),
        slot=np.zeros(count, np.int64),
        output=np.zeros(count, np.int64),
        decoded=np.zeros(count, np.int64),
        held=np.zeros((count, terms.lag), np.int64),
        prefix=np.zeros(slots, np.int64),
        fresh=np.zeros(slots, np.bool_),
        bench=make_bench(slots, terms.drafts),
    )


@part
def idle(task: Task, state: State) -> bool:
    """Whether nothing runs and nothing waits."""
    return bool(state.place[RUNNING] == 0 and state.place[WAITING] == len(task.requests.total))


@part
def blocks_of(task: Task, request: int) -> int:
    """Return the KV blocks that a request reserves."""
    return int(-(-(task.requests.asked[request] + task.terms.lookahead) // task.terms.block_size))


@part
def _admit(task: Task, state: State, plan: Plan, now_ns: int) -> int:
    """Move arrived requests into the lowest free slots, first come first served; return how many."""
    place, requests = state.place, task.requests
    before = place[RUNNING]
    while place[WAITING] < len(requests.total) and place[RUNNING] < task.terms.concurrency:
        request = place[WAITING]
        blocks = blocks_of(task, request)
        if requests.arrival_ns[request] > now_ns or blocks > place[FREE]:
            break
        slot = 0
        while state.taken[slot]:
            slot += 1
        state.taken[slot], state.slot[request] = True, slot
        state.running[place[RUNNING]] = request
        plan.stays.admitted[request], plan.stays.slot[request] = place[STEP], slot
        place[WAITING] += 1
        place[RUNNING] += 1
        place[FREE] -= blocks
    return int(place[RUNNING] - before)


@part
def _draw(task: Task, plan: Plan, step: int, request: int, anchor: int) -> None:
    """Note whose draw of noise a step has."""
    block = anchor // BLOCK_TOKENS - task.requests.prompt[request] // BLOCK_TOKENS
    plan.steps.draw_at[step] = task.requests.draw_at[request] + block
    plan.steps.draw_offset[step] = anchor % BLOCK_TOKENS


@part
def _plan_prefill(task: Task, state: State, plan: Plan, admitted: int) -> None:
    """Plan a prefill of the last so many of those that run."""
    step, steps, requests = state.place[STEP], plan.steps, task.requests
    first, rows, keys = state.place[RUNNING] - admitted, 0, 0
    for i in range(first, first + admitted):
        length = requests.prompt[state.running[i]]
        rows += length
        keys += length * (length + 1) // 2
    fill_prefill(steps.sizes[step], admitted, rows, keys)
    leader = state.running[first]
    _draw(task, plan, step, leader, requests.prompt[leader])
    steps.kind[step], steps.batch[step], steps.validate_rows[step], steps.bucket[step] = PREFILL, admitted, rows, 0
    steps.tokens[step], steps.offered[step], steps.accepted[step] = admitted, 0, 0


@part
def _unknown(task: Task, state: State) -> int:
    """Return the place of the first anchor of those that run whose outcome is not known, else DONE."""
    for i in range(state.place[RUNNING]):
        request = state.running[i]
        at = task.requests.place_at[request] + state.output[request] - 1
        if not task.anchors.known[at]:
            return int(at)
    return DONE


@part
def _decide(task: Task, state: State) -> None:
    """Fill prefix and fresh of those that run: the controller sees fresh rows only, others have full width."""
    requests, anchors, terms = task.requests, task.anchors, task.terms
    count, bench, seen = state.place[RUNNING], state.bench, 0
    for i in range(count):
        request = state.running[i]
        state.prefix[i], state.fresh[i] = terms.drafts, False
        if not terms.decides or state.decoded[request] < terms.lag:
            continue
        if terms.lag:
            row = state.held[request, state.decoded[request] % terms.lag]
        else:
            row = np.int64(anchors.block[requests.place_at[request] + state.output[request] - 1])
        state.fresh[i] = True
        fill_paths(bench, seen, anchors.confidence, row)
        bench.kv_lens[seen] = requests.prompt[request] + state.output[request] - 1
        seen += 1
    if seen == 0:
        return
    choose(terms.rules, bench, seen)
    seen = 0
    for i in range(count):
        if state.fresh[i]:
            state.prefix[i] = bench.chosen[seen]
            seen += 1


@part
def _plan_row(task: Task, state: State, plan: Plan, i: int) -> None:
    """Plan one sequence of a decode."""
    requests, anchors, terms = task.requests, task.anchors, task.terms
    rows, row, request = plan.rows, state.place[ROW] + i, state.running[i]
    at = requests.place_at[request] + state.output[request] - 1
    accepted = min(state.prefix[i], np.int64(anchors.match_run[at]))
    if state.fresh[i] and terms.kept != 1.0:  # see step_planner.thinned
        accepted = np.int64(np.floor(accepted * terms.kept + anchors.stale_luck[at]))
    rows.request[row], rows.slot[row], rows.place[row] = request, state.slot[request], at
    rows.prefix_len[row], rows.fresh[row] = state.prefix[i], state.fresh[i]
    rows.accepted[row] = accepted
    rows.emitted[row] = min(accepted + 1, requests.total[request] - state.output[request])
    if terms.lag:
        state.held[request, state.decoded[request] % terms.lag] = anchors.block[at]
    state.decoded[request] += 1


@part
def _plan_decode(task: Task, state: State, plan: Plan) -> None:
    """Plan a decode of all that run."""
    requests, terms, tables = task.requests, task.terms, task.tables
    _decide(task, state)
    step, count, first, steps, rows = state.place[STEP], state.place[RUNNING], state.place[ROW], plan.steps, plan.rows
    offered, accepted, tokens, keys, draft_keys = 0, 0, 0, 0, 0
    widest, longest, draft_longest = 0, 0, 0
    for i in range(count):
        _plan_row(task, state, plan, i)
        request = state.running[i]
        kv = requests.prompt[request] + state.output[request] - 1
        width = state.prefix[i] + 1
        offered += width - 1
        accepted += rows.accepted[first + i]
        tokens += rows.emitted[first + i]
        keys += width * kv + width * (width + 1) // 2
        draft_keys += terms.width * (kv + terms.width)
        widest, longest = max(widest, width), max(longest, kv + width)
        draft_longest = max(draft_longest, kv + terms.width)
    pruned, validated = offered < count * terms.drafts, offered + count
    totals = DecodeTotals(draft_keys, validated, keys, tokens, widest, longest, draft_longest)
    fill_decode(steps.sizes[step], tables, count, totals)
    leader = state.running[0]
    _draw(task, plan, step, leader, requests.prompt[leader] + state.output[leader] - 1)
    steps.kind[step], steps.batch[step] = PRUNED if pruned else FULL, count
    steps.validate_rows[step], steps.bucket[step] = validated, tables.bucket[validated]
    steps.tokens[step], steps.offered[step], steps.accepted[step] = tokens, offered, accepted
    state.place[ROW] = first + count


@part
def _commit(task: Task, state: State, plan: Plan, admitted: int) -> None:
    """Give each sequence of the planned step its tokens, and retire those that have them all."""
    place, kept = state.place, 0
    first = place[RUNNING] - admitted if admitted else 0
    row = place[ROW] - place[RUNNING]
    for i in range(place[RUNNING]):
        request = state.running[i]
        if i >= first:
            state.output[request] += 1 if admitted else plan.rows.emitted[row + i]
        if state.output[request] < task.requests.total[request]:
            state.running[kept] = request
            kept += 1
        else:
            plan.stays.finished[request] = place[STEP]
            state.taken[state.slot[request]] = False
            place[FREE] += blocks_of(task, request)
    place[RUNNING] = kept


@part
def plan_step(task: Task, state: State, plan: Plan, now_ns: int) -> int:
    """Plan the next step and give its tokens. Return DONE, or the place of an anchor whose outcome is not known."""
    place, steps = state.place, plan.steps
    admitted = _admit(task, state, plan, now_ns)
    if admitted:
        _plan_prefill(task, state, plan, admitted)
    else:
        lacking = _unknown(task, state)
        if lacking != DONE:
            return lacking
        _plan_decode(task, state, plan)
    _commit(task, state, plan, admitted)
    steps.not_before_ns[place[STEP]] = 0
    steps.first_row[place[STEP] + 1] = place[ROW]
    place[STEP] += 1
    return DONE


@kernel
def plan_all(task: Task, state: State, plan: Plan) -> int:
    """Plan every step of a closed loop, from the state on. Return as `plan_step`."""
    while not idle(task, state):
        lacking = plan_step(task, state, plan, 0)
        if lacking != DONE:
            return lacking
    return DONE

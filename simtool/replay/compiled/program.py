"""A placement at a profile's costs as arrays: what the host runs in each kind of step, and what that launches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simtool.replay.compiled.plan import KINDS
from simtool.replay.compiled.prices import Prices, make_prices
from simtool.replay.prices.price_list import PriceList
from simtool.replay.prices.step_program import GAP, OpEntry, WorkEntry

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Ops(NamedTuple):
    """Host ops of the kinds of step, one after the other; [ops] each. event: its place in its step. Costs by number.

    await_at: where the events that it waits for begin among `awaited`, [ops + 1]. tells: its wait brings the tokens to
    the host. work_at: where its device work begins, [ops + 1]; late_at: where what it launches after its wait does.
    """

    event: Ints
    pre: Ints
    waits: Flags
    tells: Flags
    await_at: Ints
    awaited: Ints
    wake: Ints
    post: Ints
    work_at: Ints
    late_at: Ints


class Works(NamedTuple):
    """Device work of those ops; [works] each. event: its place in its step. executor: by number. Costs by number.

    after_at: where the events of what else it waits for begin among `after`, [works + 1].
    """

    event: Ints
    executor: Ints
    offset: Ints
    queue: Ints
    duration: Ints
    after_at: Ints
    after: Ints


class Program(NamedTuple):
    """Kinds of step. op_at: where the ops of each begin, [kinds + 1]. events, waits: how many each has; gap: its cost.

    executors: how many there are.
    """

    op_at: Ints
    events: Ints
    waits: Ints
    gap: Ints
    ops: Ops
    works: Works
    prices: Prices
    executors: int


def make_program(lists: Mapping[int, PriceList], executors: Sequence[str], *, noisy: bool) -> Program:
    """Return the program of some kinds of step; executors: the names of all. noisy: it can be run with noise."""
    kinds = sorted(lists)
    sizes = [len(lists[kind].program.prices) for kind in kinds]
    base = dict(zip(kinds, (np.cumsum(sizes) - sizes).tolist(), strict=True))
    ops = [(base[kind], op) for kind in kinds for op in lists[kind].program.ops]
    tells = [op for kind in kinds for op in _waiting(lists[kind])[lists[kind].program.tokens :][:1]]
    counts = [len(lists[kind].program.ops) if kind in lists else 0 for kind in range(KINDS)]
    return Program(
        op_at=np.cumsum([0, *counts], dtype=np.int64),
        events=_wholes(len(lists[kind].program.events) if kind in lists else 0 for kind in range(KINDS)),
        waits=_wholes(len(_waiting(lists[kind])) if kind in lists else 0 for kind in range(KINDS)),
        gap=_wholes(base.get(kind, 0) + GAP for kind in range(KINDS)),
        ops=_ops(ops, tells),
        works=_works([(first, work) for first, op in ops for work in _works_of(op)], executors),
        prices=make_prices([lists[kind] for kind in kinds], noisy=noisy),
        executors=len(executors),
    )


def _waiting(prices: PriceList) -> list[OpEntry]:
    return [op for op in prices.program.ops if op.wait]


def _works_of(op: OpEntry) -> tuple[WorkEntry, ...]:
    return (*op.works, *(op.wait.works if op.wait else ()))


def _ops(ops: Sequence[tuple[int, OpEntry]], tells: Sequence[OpEntry]) -> Ops:
    """Ops with the number of their step's first cost; one that does not wait has costs that nobody reads."""
    work_at = np.cumsum([0, *(len(_works_of(op)) for _, op in ops)], dtype=np.int64)
    return Ops(
        event=_wholes(op.event for _, op in ops),
        pre=_wholes(first + op.pre for first, op in ops),
        waits=np.array([op.wait is not None for _, op in ops], np.bool_),
        tells=np.array([any(op is each for each in tells) for _, op in ops], np.bool_),
        await_at=np.cumsum([0, *(len(op.wait.events) if op.wait else 0 for _, op in ops)], dtype=np.int64),
        awaited=_wholes(event for _, op in ops if op.wait for event in op.wait.events),
        wake=_wholes(first + op.wait.wake if op.wait else 0 for first, op in ops),
        post=_wholes(first + op.wait.post if op.wait else 0 for first, op in ops),
        work_at=work_at,
        late_at=work_at[:-1] + _wholes(len(op.works) for _, op in ops),
    )


def _works(works: Sequence[tuple[int, WorkEntry]], executors: Sequence[str]) -> Works:
    return Works(
        event=_wholes(work.event for _, work in works),
        executor=_wholes(executors.index(work.executor) for _, work in works),
        offset=_wholes(first + work.offset for first, work in works),
        queue=_wholes(first + work.queue for first, work in works),
        duration=_wholes(first + work.duration for first, work in works),
        after_at=np.cumsum([0, *(len(work.after) for _, work in works)], dtype=np.int64),
        after=_wholes(event for _, work in works for event in work.after),
    )


def _wholes(values: Iterable[int]) -> Ints:
    return np.array(list(values), np.int64)

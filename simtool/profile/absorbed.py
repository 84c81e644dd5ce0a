"""Ops that an import does not tell apart: their time lies in the ops around them.

Another engine's profile names fewer ops than a placement has. What its steps hold in one piece stays in one piece: the
ops that every step has and the import does not name cost nothing of their own. What only some placements run (a
decision, a pruned batch) is not among them: nobody measured it, so it has no cost until it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from simtool.profile.cost import FREE
from simtool.profile.profile import HostCost, Profile, StepCosts, WorkCost
from simtool.step.ops import CATALOGUE, Lane, Op
from simtool.step.placement import BUILT_IN, PREFILL_ORDER, Placement

#: What a step runs instead where it prunes, and the other way: an import that tells of one tells it apart.
_OTHERWISE = {
    "build_dense": "build_varlen",
    "fill_dense": "fill_varlen",
    "build_varlen": "build_dense",
    "fill_varlen": "fill_dense",
}


def with_absorbed(profile: Profile, order: Placement) -> Profile:
    """Return the profile with free costs for what every step runs and nothing of which was seen; it says which.

    order: that the steps ran in; any order is priced besides, as far as it runs no more than static does. In vLLM's the
    batch is ragged anyway, so building it pruned is no other work.
    """
    prefill, decode = profile.prefill, profile.decode
    if prefill.host:
        prefill = _absorbed(prefill, PREFILL_ORDER)
    if decode.host:
        ragged = {CATALOGUE[name] for name in ("build_varlen", "fill_varlen")} if order.keeps_drafts else set()
        decode = _absorbed(decode, BUILT_IN["static"].ever_runs() | order.ever_runs() | ragged)
    free = [
        name for name in {**prefill.host, **decode.host} if name not in {**profile.prefill.host, **profile.decode.host}
    ]
    if not free:
        return replace(profile, prefill=prefill, decode=decode)
    note = f"not told apart, so free, their time in the ops around them: {', '.join(free)}"
    return replace(profile, prefill=prefill, decode=decode, provenance=profile.provenance.warned(note))


def is_free(costs: StepCosts, op: str, work: str) -> bool:
    """Say whether an op and its work cost nothing at all, as where they were absorbed: it tells nothing of others."""
    return costs.host[op].pre == FREE and costs.device[work].duration == FREE


def with_op(costs: StepCosts, op: Op) -> StepCosts:
    """Return costs in which the op is free, and its device work where it has no cost yet."""
    launches = {work.name: FREE for work in op.works}
    host = HostCost(FREE, FREE, FREE, launches) if op.blocks else HostCost(FREE, launches=launches)
    works: Mapping[str, WorkCost] = {work.name: WorkCost(FREE, FREE) for work in op.works}
    return StepCosts({**costs.host, op.name: host}, {**works, **costs.device})


def _absorbed(costs: StepCosts, ops: Iterable[Op]) -> StepCosts:
    told = set(costs.host)
    for op in sorted(ops, key=lambda op: op.name):
        if op.name not in told and _OTHERWISE.get(op.name) not in told:
            costs = with_op(costs, CATALOGUE[op.name])
        elif op.name in told:
            costs = _with_unseen_copies(costs, op)
    return costs


def _with_unseen_copies(costs: StepCosts, op: Op) -> StepCosts:
    """Costs in which an op's copies to and from the device are free where the profile saw none."""
    copies = {work.name: WorkCost(FREE, FREE) for work in op.works if work.lane in (Lane.COPY, Lane.PREPARE)}
    return StepCosts(costs.host, {**copies, **costs.device})

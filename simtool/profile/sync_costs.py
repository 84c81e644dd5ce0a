"""Costs of an op where its implementation blocks from recordings where it does not, and the other way: said so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simtool.profile.cost import FREE, Cost, Line
from simtool.profile.profile import HostCost, Profile, StepCosts
from simtool.step.idle_effects import IDLE_FEATURES
from simtool.step.ops import Op, syncing
from simtool.step.placement import Placement

#: What waits for an event in every placement: the host learns of the end as late as there.
_WAKES_LIKE = ("write_context", "read_tokens")
#: An op whose host time is the launch of a kernel and nothing else.
_ONLY_LAUNCHES = "fill_dense"


def with_sync_costs(profile: Profile, placement: Placement) -> Profile:
    """Return a profile that can price the placement's ops as they sync or do not; what it measured is kept.

    An op that was recorded without its sync is priced by its own cost and the wait, which the replay finds: what it
    does before it launches kernels comes before the wait, and the launch after it. One that was recorded only where it
    syncs costs as much without the wait. An op without a price stays so.
    """
    for op in sorted(placement.ever_runs(), key=lambda op: op.priced_as):
        costs = profile.decode
        if op.priced_as in costs.host or not _can_sync(op):
            continue
        if op.syncs and op.name in costs.host:
            note, cost = f"{op.name} was not recorded where it syncs: its own cost and the wait", _split(costs, op)
        elif not op.syncs and (synced := costs.host.get(syncing(op).priced_as)):
            note, cost = f"{op.name} was only recorded where it syncs: its own cost without the wait", _joined(synced)
        else:
            continue
        profile = profile.lent(replace(costs, host={**costs.host, op.priced_as: cost}), note, op.priced_as)
    return profile


def _can_sync(op: Op) -> bool:
    return op.syncs or (bool(op.works) and not op.blocks)


def _joined(synced: HostCost) -> HostCost:
    """What it does before and after its wait, without one."""
    return HostCost(synced.pre.plus(synced.post) if synced.post else synced.pre, launches=synced.launches)


def _split(costs: StepCosts, op: Op) -> HostCost:
    """The op's own cost on both sides of its wait: all before it where no kernel follows, all after it where only that
    does, and of an op that does both the launch after it."""
    own = costs.host[op.name]
    wake = next((costs.host[name].wake for name in _WAKES_LIKE if name in costs.host), None)
    if not op.late_works:
        return HostCost(own.pre, FREE, wake, own.launches)
    if not op.early_works:
        return HostCost(FREE, _without_history(own.pre), wake, own.launches)
    if _ONLY_LAUNCHES not in costs.host:
        return HostCost(own.pre, FREE, wake, own.launches)
    launch = _without_history(costs.host[_ONLY_LAUNCHES].pre)
    return HostCost(own.pre.shifted(-launch.intercept_ns), launch, wake, own.launches)


def _without_history(cost: Cost) -> Cost:
    """The cost of work that runs right behind a wait, whatever it was: what ran before no longer counts."""

    def kept(slopes: Mapping[str, float]) -> dict[str, float]:
        return {name: slope for name, slope in slopes.items() if name not in IDLE_FEATURES}

    refits = tuple(Line(line.intercept_ns, kept(line.per_feature_ns)) for line in cost.refits)
    ranges = {name: ends for name, ends in cost.ranges.items() if name not in IDLE_FEATURES}
    return replace(cost, per_feature_ns=kept(cost.per_feature_ns), ranges=ranges, refits=refits)

"""Costs of the ops that only placements across the step's border or with a split on the device run, lent by known ops.

Each is a part of a known op, or the same kernel on other rows: a launch alone, the wait alone, all rows of a batch in
place of those that were accepted. A replay names every cost that is borrowed so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from simtool.profile.cost import FREE
from simtool.profile.profile import HostCost, Profile, StepCosts, WorkCost
from simtool.profile.renamed import renamed
from simtool.step.ops import CATALOGUE


@dataclass(frozen=True)
class _Launch:
    """An op whose host time is a launch, as of `host`; its work is priced like `work`, with its feature renamed."""

    op: str
    host: tuple[str, ...]
    work: tuple[str, ...]
    feature: tuple[str, str] | None = None


@dataclass(frozen=True)
class _Wait:
    """An op that does what `host` does but launch the copy: that is under way."""

    op: str
    host: tuple[str, ...]


_LAUNCHES = (
    _Launch("advance_query", ("launch_verify",), ("fill_dense",), ("dense_rows", "block_rows")),
    _Launch("extend_context", ("launch_verify",), ("context_kv",), ("accepted_rows", "validate_rows")),
    _Launch("send_confidence", ("launch_verify",), ("read_confidence", "store_confidence")),
    _Launch("split_budget", ("launch_verify",), ("fill_dense",), ("dense_rows", "draft_tokens")),
    _Launch("compact_rows", ("launch_verify",), ("fill_varlen",)),
    _Launch("send_tokens", ("launch_verify",), ("read_tokens",)),
)
#: (op, whose cost, what it grows with instead): whole ops that are like another.
_LIKE = (
    ("decide_budget", "decide", None),
    ("build_budget", "build_varlen", ("validate_rows", "batch")),
)
_WAITS = (
    _Wait("await_confidence", ("read_confidence", "store_confidence")),
    _Wait("keep_confidence", ("store_confidence", "read_confidence")),
    _Wait("await_tokens", ("read_tokens",)),
)


def with_ahead_costs(profile: Profile) -> Profile:
    """Return a profile that can price the ops of placements across the step's border, as far as it knows their like."""
    for launch in _LAUNCHES:
        costs = profile.decode
        host = next((name for name in launch.host if name in costs.host), None)
        work = next((name for name in launch.work if name in costs.device), None)
        if launch.op in costs.host or host is None or work is None:
            continue
        note = f"{launch.op} was not recorded: a launch like {host}, its device work like {work}"
        profile = profile.lent(_launched(costs, launch, host, work), note, launch.op)
    for op, lender, feature in _LIKE:
        costs = profile.decode
        if op not in costs.host and lender in costs.host:
            note = f"{op} was not recorded: it costs what {lender} does" + (
                ", for one row a sequence" if feature else ""
            )
            profile = profile.lent(_whole(costs, op, lender, feature), note, op)
    for wait in _WAITS:
        costs = profile.decode
        host = next((name for name in wait.host if name in costs.host), None)
        if wait.op in costs.host or host is None:
            continue
        note = f"{wait.op} was not recorded: {host} without the launch of its copy"
        own = costs.host[host]
        whole = replace(own, pre=FREE, launches={})
        profile = profile.lent(replace(costs, host={**costs.host, wait.op: whole}), note, wait.op)
    return profile


def _whole(costs: StepCosts, op: str, lender: str, feature: tuple[str, str] | None) -> StepCosts:
    """Another op's host cost and, where it uploads, its device work's, each with its feature renamed."""

    host, works = costs.host[lender], CATALOGUE[op].works
    launches = {own.name: host.launches.get(theirs.name, FREE)
                for own, theirs in zip(works, CATALOGUE[lender].works, strict=True)}  # fmt: skip
    device = dict(costs.device)
    for own, theirs in zip(works, CATALOGUE[lender].works, strict=True):
        cost = costs.device[theirs.name]
        device[own.name] = WorkCost(renamed(cost.duration, feature), cost.queue)
    return StepCosts({**costs.host, op: HostCost(renamed(host.pre, feature), launches=launches)}, device)


def _launched(costs: StepCosts, launch: _Launch, host: str, work: str) -> StepCosts:
    (own,) = (each.name for each in CATALOGUE[launch.op].works)
    lent, cost = costs.host[host], costs.device[work]
    offset = [FREE, *lent.launches.values()][-1]
    device = costs.device.get(own) or WorkCost(renamed(cost.duration, launch.feature), cost.queue)
    priced = HostCost(lent.pre, launches={own: offset})
    return StepCosts({**costs.host, launch.op: priced}, {**costs.device, own: device})

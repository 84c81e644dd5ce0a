"""Costs of ops that the recordings at hand never ran, borrowed from the op most like them and said so."""

from __future__ import annotations

from dataclasses import dataclass

from simtool.profile.absorbed import is_free
from simtool.profile.cost import FREE
from simtool.profile.profile import HostCost, Profile, StepCosts, WorkCost
from simtool.profile.renamed import renamed
from simtool.profile.scaling import split_fill
from simtool.profile.sync_costs import with_sync_costs
from simtool.step.ops import CATALOGUE
from simtool.step.placement import XLLM_ARMS


@dataclass(frozen=True)
class _Proxy:
    """op is priced like `host` on the host, its device work like `work`; renamed: what it grows with instead."""

    op: str
    host: str
    work: str
    renamed: tuple[str, str] | None = None


_PROXIES = (
    _Proxy("store_confidence", "read_confidence", "read_confidence"),
    _Proxy("read_confidence", "store_confidence", "store_confidence"),
    _Proxy("build_dense", "build_varlen", "build_varlen", ("validate_rows", "dense_rows")),
    _Proxy("build_varlen", "build_dense", "build_dense", ("dense_rows", "validate_rows")),
    _Proxy("launch_tokens", "launch_sample", "sample"),
    _Proxy("fill_dense", "launch_sample", "fill_varlen", ("validate_rows", "dense_rows")),
)


def with_proxies(profile: Profile) -> Profile:
    """Return a profile that can price more placements than its recordings ran; its provenance names each borrowed cost.

    The two halves of fill_varlen are derived too, see `split_fill`. An op like no other stays without a cost.
    """
    for each in _PROXIES:
        costs = profile.decode
        if each.op not in costs.host and each.host in costs.host and each.work in costs.device:
            if is_free(costs, each.host, each.work):
                continue  # an import's, whose time lies elsewhere
            note = f"{each.op} was not recorded: priced like {each.host}, its device work like {each.work}"
            profile = profile.lent(_with(costs, each), note, each.op)
    for placement in XLLM_ARMS.values():
        profile = with_sync_costs(profile, placement)
    return split_fill(profile)


def _with(costs: StepCosts, each: _Proxy) -> StepCosts:
    host, work = costs.host[each.host], costs.device[each.work]
    (own,) = (work.name for work in CATALOGUE[each.op].works)
    offset = [FREE, *host.launches.values()][-1]
    priced = HostCost(renamed(host.pre, each.renamed), host.post, host.wake, {own: offset})
    device = WorkCost(renamed(work.duration, each.renamed), work.queue)
    return StepCosts({**costs.host, each.op: priced}, {**costs.device, own: device})

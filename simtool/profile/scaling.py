"""The same machine with another balance: host work, device work and the latencies between them, each by a factor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simtool.errors import UsageError
from simtool.profile.cost import Cost
from simtool.profile.profile import HostCost, Profile, StepCosts, WorkCost
from simtool.step.controller import LinearPredictor


def scaled(profile: Profile, name: str, *, host: float = 1.0, device: float = 1.0, latency: float = 1.0) -> Profile:
    """Return the profile under a new name with every cost of a side times its factor; noted in its provenance.

    host: what ops take on the host, the loop's gap too. device: device work, and the controller's predictor of it.
    latency: wake-ups, launch offsets and the distance between work. Raises UsageError unless all are positive.
    """
    if min(host, device, latency) <= 0:
        raise UsageError(f"scaled by host {host}, device {device}, latency {latency}; expected factors above 0")
    note = f"{profile.name} with host work x{host:g}, device work x{device:g}, latencies x{latency:g}"
    return replace(
        profile,
        name=name,
        prefill=_steps(profile.prefill, host, device, latency),
        decode=_steps(profile.decode, host, device, latency),
        loop_gap=profile.loop_gap.scaled(host),
        predictor=_predictor(profile.predictor, device),
        provenance=profile.provenance.changed(note),
    )


def split_fill(profile: Profile) -> Profile:
    """Return a profile that can also price build_fill_index and scatter_fill; one that can already is unchanged.

    fill_varlen is both halves in one op. The second half only launches, as fill_dense does, so it is priced like
    that; the first half is what remains.
    """
    host = profile.decode.host
    if {"build_fill_index", "scatter_fill"} <= set(host) or not {"fill_varlen", "fill_dense"} <= set(host):
        return profile
    whole, second = host["fill_varlen"], host["fill_dense"]
    index = HostCost(whole.pre.shifted(-second.pre.intercept_ns), launches=_only(whole, "fill_varlen_index"))
    scatter = HostCost(second.pre, launches=_only(whole, "fill_varlen"))
    note = (
        "build_fill_index and scatter_fill were not recorded: priced like fill_varlen less fill_dense, and fill_dense"
    )
    halves = {"build_fill_index": index, "scatter_fill": scatter}
    return profile.lent(replace(profile.decode, host={**host, **halves}), note, *halves)


def _steps(costs: StepCosts, host: float, device: float, latency: float) -> StepCosts:
    return StepCosts(
        {name: _host(cost, host, latency) for name, cost in costs.host.items()},
        {
            name: WorkCost(cost.duration.scaled(device), cost.queue.scaled(latency))
            for name, cost in costs.device.items()
        },
    )


def _host(cost: HostCost, host: float, latency: float) -> HostCost:
    return HostCost(
        cost.pre.scaled(host),
        cost.post.scaled(host) if cost.post else None,
        cost.wake.scaled(latency) if cost.wake else None,
        {work: offset.scaled(latency) for work, offset in cost.launches.items()},
    )


def _predictor(predictor: LinearPredictor | None, device: float) -> LinearPredictor | None:
    if predictor is None:
        return None
    terms = (predictor.intercept_ms, predictor.query_token_ms, predictor.query_prefix_ms)
    return LinearPredictor(*(term * device for term in terms))


def _only(cost: HostCost, work: str) -> Mapping[str, Cost]:
    return {name: offset for name, offset in cost.launches.items() if name == work}

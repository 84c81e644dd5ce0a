"""Replay: Trace x Profile x Scenario -> Trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from simtool import __version__
from simtool.profile.profile import Profile
from simtool.replay.admission import make_scheduler, tells_kv_cache
from simtool.replay.caveats import Caveats
from simtool.replay.cost_sampler import CostSampler
from simtool.replay.outcomes import Outcomes
from simtool.replay.recorder import ReplayRecorder, RequestTimes
from simtool.replay.scenario import Scenario
from simtool.replay.simulator import Simulator
from simtool.replay.step_planner import Block, StepPlanner
from simtool.step.scheduler import Request
from simtool.trace.manifest import Manifest
from simtool.trace.queue_order import queue_order
from simtool.trace.trace import Trace, write_trace

#: What a replay tells on of its source: the KV cache, and how requests and outcomes were drawn.
_KEPT = ("block_size", "kv_blocks", "workload", "bootstrap")


@dataclass(frozen=True)
class Replay:
    """A replayed trace that is not yet on disk. caveats: its manifest's warnings, for studies to put together."""

    manifest: Manifest
    tables: Mapping[str, pl.DataFrame]
    caveats: Caveats

    def trace(self, path: Path) -> Trace:
        """Return it as an opened trace that is not on disk; path: what it goes by."""
        return Trace(path, self.manifest, dict(self.tables))

    def save(self, path: Path, *, force: bool = False) -> Trace:
        """Write it as a trace and return that opened."""
        return write_trace(path, self.manifest, self.tables, force=force)


def replay(source: Trace, profile: Profile, scenario: Scenario) -> Replay:
    """Serve the source's requests again under a scenario, at a profile's costs.

    Raises TraceError when the trace lacks what the scenario needs, ProfileError when the profile lacks a cost.
    """
    requests = queue_order(source)
    arrivals = scenario.arrivals.times_ns(requests["arrival_ns"].to_list(), scenario.seed)
    queue = [
        Request(request_id, prompt, limit, arrival)
        for (request_id, prompt, limit), arrival in zip(
            requests.select("request_id", "prompt_tokens", "max_new_tokens").iter_rows(), arrivals, strict=True
        )
    ]
    queue.sort(key=lambda request: request.arrival_ns)
    outcomes = Outcomes(source, scenario.outcomes)
    costs = CostSampler(profile, scenario.noise, scenario.seed)
    recording = ReplayRecorder(
        scenario.placement.name, {request.request_id: RequestTimes(request.arrival_ns) for request in queue}
    )
    scheduler = make_scheduler(source.manifest, scenario, queue)
    totals = dict(requests.select("request_id", "output_tokens").iter_rows())
    block = Block(source.manifest.sl, source.manifest.block_width, profile.graphs)
    Simulator(StepPlanner(scheduler, outcomes, totals, block, scenario), costs, recording).run()
    tables = {
        "requests": _with_times(requests, recording.requests),
        "outcomes": source.table("outcomes"),
        **recording.tables(),
    }
    caveats = Caveats(
        (*_sentences(source, outcomes), *profile.provenance.proxies_of(scenario.placement)),
        costs.extrapolated,
        (*profile.provenance.changes, *scenario.what_ifs),
    )
    return Replay(_manifest(source, profile, scenario, outcomes, caveats), tables, caveats)


def _with_times(requests: pl.DataFrame, times: Mapping[str, RequestTimes]) -> pl.DataFrame:
    columns: dict[str, list[Any]] = {name: [] for name in RequestTimes.__dataclass_fields__}
    for request_id in requests["request_id"]:
        for name, values in columns.items():
            values.append(getattr(times[request_id], name))
    return requests.with_columns(pl.Series(name, values, dtype=pl.Int64) for name, values in columns.items())


def _manifest(source: Trace, profile: Profile, scenario: Scenario, outcomes: Outcomes, caveats: Caveats) -> Manifest:
    kept = {name: value for name, value in source.manifest.details.items() if name in _KEPT}
    return dataclasses.replace(
        source.manifest,
        origin="replayed",
        engine="simtool replay",
        engine_version=__version__,
        device=profile.device,
        device_name=profile.device_name,
        concurrency=scenario.concurrency,
        placement=scenario.placement.to_dict(),
        controller=asdict(scenario.controller),
        seed=scenario.seed,
        clock="simulated ns from 0",
        warnings=caveats.lines(),
        details={
            **kept,
            "executors": dict(profile.executors),
            "graphs": profile.graphs.to_dict(),
            "closed_loop": scenario.arrivals.kind == "closed",
            "source": source.path.name,
            "source_origin": source.manifest.origin,
            "profile": {"name": profile.name, **profile.provenance.to_dict()},
            "scenario": scenario.to_dict(),
            "outcomes": _outcomes_in_words(source.manifest, outcomes),
            "anchors_looked_up": outcomes.looked_up,
            "anchors_substituted": outcomes.substituted,
        },
        complete=True,
    )


def _sentences(source: Trace, outcomes: Outcomes) -> Iterator[str]:
    if not source.manifest.complete:
        yield "the source is incomplete: only its finished requests were replayed"
    yield from _draw_warnings(source.manifest)
    if not tells_kv_cache(source.manifest):
        yield "the source does not tell its KV cache size: replayed as if it never fills"
    if outcomes.substituted:
        yield (
            f"{outcomes.substituted_share:.1%} of the anchors were not in the trace; near ones of the same request "
            "stand in for them"
        )


def _draw_warnings(manifest: Manifest) -> Iterator[str]:
    """What chance decided before the replay began."""
    workload, bootstrap = manifest.details.get("workload"), manifest.details.get("bootstrap")
    if isinstance(workload, dict):
        yield from map(str, workload["warnings"])
    if isinstance(bootstrap, dict):
        yield (
            f"distributional: all outcomes are bootstrapped by request, {bootstrap['draws']} draws of "
            f"{bootstrap['recorded_requests']} recorded requests with seed {bootstrap['seed']}"
        )
    elif manifest.sampling.get("temperature"):
        yield "distributional: the source sampled at temperature > 0, so its outcomes are one draw"


def _outcomes_in_words(manifest: Manifest, outcomes: Outcomes) -> str:
    """How far the tokens can be trusted: exact; or distributional, or with a share of substitutes, or both."""
    drawn = "bootstrap" in manifest.details or bool(manifest.sampling.get("temperature"))
    words = ["distributional"] if drawn else []
    if outcomes.substituted:
        words.append(f"{outcomes.substituted_share:.1%} substituted")
    return ", ".join(words) or "exact"

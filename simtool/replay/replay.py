"""Replay: Trace x Profile x Scenario -> Trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from simtool.profile.profile import Profile
from simtool.profile.sync_costs import with_sync_costs
from simtool.replay.admission import make_scheduler, tells_kv_cache
from simtool.replay.caveats import Caveats
from simtool.replay.columns import Framer, Stretch
from simtool.replay.outcomes.outcomes import find_outcomes
from simtool.replay.prices.cost_sampler import CostSampler
from simtool.replay.recorder import ReplayRecorder
from simtool.replay.scenario import Scenario
from simtool.replay.simulator import Simulator
from simtool.replay.step_planner import Block, StepPlanner
from simtool.step.placement import without_sync
from simtool.step.scheduler import Request
from simtool.trace.manifest import Manifest
from simtool.trace.queue_order import queue_order
from simtool.trace.trace import Trace, write_trace
from simtool.version import __version__

#: What a replay tells on of its source: the KV cache, and how requests and outcomes were drawn.
_KEPT = ("block_size", "kv_blocks", "workload", "bootstrap")


@dataclass(frozen=True)
class Replay:
    """A replayed trace that is not yet on disk. caveats: its manifest's warnings, for studies to put together."""

    manifest: Manifest
    tables: Mapping[str, pl.DataFrame]
    caveats: Caveats

    def trace(self, path: Path | str | None = None) -> Trace:
        """Return it as an opened trace that is not on disk; path: what it goes by, default: its placement's name."""
        name = (self.manifest.placement or {})["name"]
        return Trace(Path(path or str(name)), self.manifest, dict(self.tables))

    def save(self, path: Path | str, *, force: bool = False) -> Trace:
        """Write it as a trace and return that opened."""
        return write_trace(Path(path), self.manifest, self.tables, force=force)


def replay(source: Trace, profile: Profile, scenario: Scenario) -> Replay:
    """Serve the source's requests again under a scenario, at a profile's costs.

    Raises TraceError when the trace lacks what the scenario needs, ProfileError when the profile lacks a cost.
    """
    scenario = dataclasses.replace(scenario, placement=without_sync(scenario.placement, profile.pinned))
    profile = with_sync_costs(profile, scenario.placement)
    requests = queue_order(source)
    arrivals = scenario.arrivals.times_ns(requests["arrival_ns"].to_list(), scenario.seed)
    queue = [
        Request(request_id, prompt, limit, arrival)
        for (request_id, prompt, limit), arrival in zip(
            requests.select("request_id", "prompt_tokens", "max_new_tokens").iter_rows(), arrivals, strict=True
        )
    ]
    queue.sort(key=lambda request: request.arrival_ns)
    totals = dict(requests.select("request_id", "output_tokens").iter_rows())
    outcomes = find_outcomes(source, scenario.outcomes, queue, [totals[request.request_id] for request in queue])
    costs = CostSampler(profile, scenario.noise, scenario.seed)
    planner = StepPlanner(
        make_scheduler(source.manifest, scenario, queue),
        outcomes,
        Block(source.manifest.sl, source.manifest.block_width, profile.graphs),
        scenario,
    )
    stretches: list[Stretch] = []
    recorder = ReplayRecorder(len(queue), stretches.append)
    Simulator(planner, costs, recorder).run()
    framer = Framer(scenario.placement.name, recorder.programs, outcomes)
    frames = [framer.frames(stretch) for stretch in stretches]
    tables = {
        "requests": _with_times(requests, queue, recorder),
        "outcomes": source.table("outcomes"),
        **{name: pl.concat([each[name] for each in frames]) for name in ("steps", "rows", "events")},
    }
    caveats = Caveats(
        sentences=tuple(_sentences(source, planner)),
        beyond=costs.extrapolated,
        changes=(*profile.provenance.changes, *scenario.what_ifs),
        proxies=tuple(profile.provenance.proxies_of(scenario.placement)),
    )
    return Replay(_manifest(source, profile, scenario, planner, caveats), tables, caveats)


def _with_times(requests: pl.DataFrame, queue: Sequence[Request], recorder: ReplayRecorder) -> pl.DataFrame:
    place = {request.request_id: i for i, request in enumerate(queue)}
    order = [place[request_id] for request_id in requests["request_id"]]
    return requests.with_columns(
        arrival_ns=pl.Series([queue[i].arrival_ns for i in order], dtype=pl.Int64),
        admitted_ns=recorder.admitted_ns[order],
        first_token_ns=recorder.first_token_ns[order],
        finished_ns=recorder.finished_ns[order],
    )


def _manifest(source: Trace, profile: Profile, scenario: Scenario, planner: StepPlanner, caveats: Caveats) -> Manifest:
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
            "outcomes": _outcomes_in_words(source.manifest, planner),
            "anchors_looked_up": planner.looked_up,
            "anchors_substituted": planner.substituted,
        },
        complete=True,
    )


def _sentences(source: Trace, planner: StepPlanner) -> Iterator[str]:
    if not source.manifest.complete:
        yield "the source is incomplete: only its finished requests were replayed"
    yield from _draw_warnings(source.manifest)
    if not tells_kv_cache(source.manifest):
        yield "the source does not tell its KV cache size: replayed as if it never fills"
    if planner.substituted:
        yield (
            f"{planner.substituted_share:.1%} of the anchors were not in the trace; near ones of the same request "
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


def _outcomes_in_words(manifest: Manifest, planner: StepPlanner) -> str:
    """How far the tokens can be trusted: exact; or distributional, or with a share of substitutes, or both."""
    drawn = "bootstrap" in manifest.details or bool(manifest.sampling.get("temperature"))
    words = ["distributional"] if drawn else []
    if planner.substituted:
        words.append(f"{planner.substituted_share:.1%} substituted")
    return ", ".join(words) or "exact"

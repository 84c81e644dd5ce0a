"""Replay: Trace x Profile x Scenario -> Trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from simtool.profile.ahead_costs import with_ahead_costs
from simtool.profile.profile import Profile
from simtool.profile.sync_costs import with_sync_costs
from simtool.replay.admission import make_scheduler, tells_kv_cache, told_kv_cache
from simtool.replay.caveats import Caveats, Visits
from simtool.replay.columns import Framer, cut
from simtool.replay.prices.cost_sampler import CostSampler
from simtool.replay.prices.step_program import StepProgram
from simtool.replay.recorder import ReplayRecorder
from simtool.replay.request_queue import RequestQueue, queue_requests
from simtool.replay.scenario import Scenario, SimulatorChoice
from simtool.replay.simulator import Simulator
from simtool.replay.step_planner import Block, StepPlanner
from simtool.step.beyond import Beyond
from simtool.step.placement import without_sync
from simtool.trace.manifest import Manifest
from simtool.trace.stretches import StretchWriter
from simtool.trace.trace import Trace, open_trace, write_trace
from simtool.version import __version__

#: What a replay tells on of its source: how requests and outcomes were drawn.
_KEPT = ("workload", "bootstrap", "synthetic")


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


def replay(source: Trace, profile: Profile, scenario: Scenario, *, simulator: SimulatorChoice = "simpy") -> Replay:
    """Serve the source's requests again under a scenario, at a profile's costs.

    simulator: simpy is the model to read and trust, compiled its equal to the ns over arrays, for many replays. A
    placement that launches ahead, splits on the device or has another policy than xLLM's controller is replayed by
    SimPy whichever is asked for, and the manifest says so.
    Raises TraceError when the trace lacks what the scenario needs, ProfileError when the profile lacks a cost,
    UsageError where the compiled simulator cannot run.
    """
    frames: list[Mapping[str, pl.DataFrame]] = []
    run, manifest, caveats = _run(source, profile, scenario, simulator, frames.append)
    tables = {
        "requests": _with_times(run),
        "outcomes": source.table("outcomes"),
        **{name: pl.concat([each[name] for each in frames]) for name in ("steps", "rows", "events")},
    }
    return Replay(manifest, tables, caveats)


def replay_and_tell(
    path: Path | str,
    source: Trace,
    profile: Profile,
    scenario: Scenario,
    *,
    force: bool = False,
    simulator: SimulatorChoice = "simpy",
    told: Mapping[str, object] | None = None,
) -> tuple[Trace, Caveats]:
    """Replay into a trace on disk, some thousand steps at a time: for replays that are larger than memory.

    The trace is that of `replay(...).save(path)`, and appears whole or not at all; what its figures rest on is returned
    too. told: what its details hold besides. Raises as both do.
    """
    with StretchWriter(Path(path), source.manifest, force=force) as writer:
        run, manifest, caveats = _run(source, profile, scenario, simulator, writer.add)
        writer.add_all("requests", _with_times(run))
        del run  # the outcomes of all anchors: no longer needed, and large
        _write_outcomes(source, writer)
        writer.finish(dataclasses.replace(manifest, details={**manifest.details, **(told or {})}))
    return open_trace(path), caveats


def _write_outcomes(source: Trace, writer: StretchWriter) -> None:
    stored = source.file_of("outcomes")
    if stored is not None:
        writer.adopt("outcomes", stored)
        return
    for outcomes in source.stretches("outcomes"):
        writer.add({"outcomes": outcomes})


def as_run(profile: Profile, scenario: Scenario) -> tuple[Profile, Scenario]:
    """Return costs and scenario as the machine runs them: syncs that pinned memory spares out, the others priced."""
    scenario = dataclasses.replace(scenario, placement=without_sync(scenario.placement, profile.pinned))
    if scenario.placement.needs_simpy:
        profile = with_ahead_costs(profile)
    return with_sync_costs(profile, scenario.placement), scenario


@dataclass(frozen=True)
class _Run:
    """What either simulator leaves behind. Times in ns, by the queue's requests. counters: the policy's fallbacks."""

    queue: RequestQueue
    visits: Visits
    extrapolated: tuple[Beyond, ...]
    admitted_ns: NDArray[np.int64]
    first_token_ns: NDArray[np.int64]
    finished_ns: NDArray[np.int64]
    slot: NDArray[np.int64]
    counters: Mapping[str, int] | None = None


#: Takes the next rows of steps, rows and events.
_Keep = Callable[[Mapping[str, pl.DataFrame]], None]


def _run(
    source: Trace, profile: Profile, scenario: Scenario, simulator: SimulatorChoice, keep: _Keep
) -> tuple[_Run, Manifest, Caveats]:
    """Run a scenario as the machine does, by the simulator that can."""
    profile, scenario = as_run(profile, scenario)
    simulator = "simpy" if scenario.placement.needs_simpy else simulator
    run = (_simulate if simulator == "simpy" else _compiled)(source, profile, scenario, keep)
    caveats = caveats_of(source, profile, scenario, run.visits, run.extrapolated)
    return run, _manifest(source, profile, scenario, run, caveats, simulator), caveats


def _simulate(source: Trace, profile: Profile, scenario: Scenario, keep: _Keep) -> _Run:
    queue = queue_requests(source, scenario)
    costs = CostSampler(profile, scenario.noise, scenario.seed, scenario.placement.handed_on)
    planner = StepPlanner(
        make_scheduler(source.manifest, scenario, queue.requests),
        queue.outcomes,
        Block(source.manifest.sl, source.manifest.block_width, profile.graphs),
        scenario,
    )
    programs: list[StepProgram] = []
    framer = Framer(scenario.placement.name, programs, queue.outcomes)
    recorder = ReplayRecorder(len(queue.requests), programs, lambda stretch: keep(framer.frames(stretch)))
    Simulator(planner, costs, recorder).run()
    return _Run(
        queue=queue,
        visits=Visits(planner.looked_up, planner.substituted),
        extrapolated=costs.extrapolated,
        admitted_ns=recorder.admitted_ns,
        first_token_ns=recorder.first_token_ns,
        finished_ns=recorder.finished_ns,
        slot=recorder.slot,
        counters=dict(planner.decider.counters) if planner.decider else None,
    )


def _compiled(source: Trace, profile: Profile, scenario: Scenario, keep: _Keep) -> _Run:
    from simtool.replay.compiled.kernel import check_compiler  # noqa: PLC0415  # the compiler takes its time to import
    from simtool.replay.compiled.replays import CompiledReplays  # noqa: PLC0415

    check_compiler()
    run = CompiledReplays(source).run(profile, scenario, events=True)
    framer = Framer(scenario.placement.name, run.programs, run.queue.outcomes)
    for stretch in cut(run.stretch(), run.programs):
        keep(framer.frames(stretch))
    return _Run(
        queue=run.queue,
        visits=Visits(run.looked_up, run.substituted),
        extrapolated=run.extrapolated,
        admitted_ns=run.admitted_ns,
        first_token_ns=run.first_token_ns,
        finished_ns=run.finished_ns,
        slot=run.slot,
    )


def _with_times(run: _Run) -> pl.DataFrame:
    place = run.queue.place
    return run.queue.table.with_columns(
        arrival_ns=run.queue.arrival_ns[place],
        admitted_ns=run.admitted_ns[place],
        first_token_ns=run.first_token_ns[place],
        finished_ns=run.finished_ns[place],
        slot=run.slot[place].astype(np.int32),
    )


def caveats_of(
    source: Trace, profile: Profile, scenario: Scenario, visits: Visits, extrapolated: tuple[Beyond, ...]
) -> Caveats:
    """Return what a replay's figures rest on."""
    return Caveats(
        sentences=tuple(_sentences(source, visits)),
        beyond=extrapolated,
        changes=(*profile.provenance.changes, *scenario.what_ifs),
        proxies=tuple(profile.provenance.proxies_of(scenario.placement)),
    )


def _manifest(
    source: Trace, profile: Profile, scenario: Scenario, run: _Run, caveats: Caveats, simulator: SimulatorChoice
) -> Manifest:  # fmt: skip
    visits, counted = run.visits, {} if run.counters is None else {"policy_counters": run.counters}
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
        controller=scenario.controller.to_dict(),
        seed=scenario.seed,
        clock="simulated ns from 0",
        warnings=caveats.lines(),
        details={
            **kept,
            **counted,
            **told_kv_cache(source.manifest, scenario),
            "executors": dict(profile.executors),
            "graphs": profile.graphs.to_dict(),
            "closed_loop": scenario.arrivals.kind == "closed",
            "source": source.path.name,
            "source_origin": source.manifest.origin,
            "profile": {"name": profile.name, **profile.provenance.to_dict()},
            "scenario": scenario.to_dict(),
            "simulator": simulator,
            "outcomes": _outcomes_in_words(source.manifest, visits),
            "anchors_looked_up": visits.looked_up,
            "anchors_substituted": visits.substituted,
            "beyond": [each.to_dict() for each in caveats.beyond],
        },
        complete=True,
    )


def _sentences(source: Trace, visits: Visits) -> Iterator[str]:
    if not source.manifest.complete:
        yield "the source is incomplete: only its finished requests were replayed"
    yield from _draw_warnings(source.manifest)
    if not tells_kv_cache(source.manifest):
        yield "the source does not tell its KV cache size: replayed as if it never fills"
    if visits.substituted:
        yield (
            f"{visits.substituted_share:.1%} of the anchors were not in the trace; near ones of the same request "
            "stand in for them"
        )


def _draw_warnings(manifest: Manifest) -> Iterator[str]:
    """What chance decided before the replay began."""
    run = manifest.run
    if run.workload is not None:
        yield from run.workload.warnings
    if run.synthetic is not None:
        yield f"synthetic: outcomes are drawn from a stated process, nobody recorded them: {run.synthetic}"
    if run.bootstrap is not None:
        yield (
            f"distributional: all outcomes are bootstrapped by request, {run.bootstrap.draws} draws of "
            f"{run.bootstrap.recorded_requests} recorded requests with seed {run.bootstrap.seed}"
        )
    elif not manifest.settled:
        yield "distributional: the source sampled at temperature > 0, so its outcomes are one draw"


def _outcomes_in_words(manifest: Manifest, visits: Visits) -> str:
    """How far the tokens can be trusted: exact; or distributional, or with a share of substitutes, or both."""
    words = ["synthetic"] if manifest.run.synthetic is not None else []
    words += ["distributional"] if manifest.drawn else []
    if visits.substituted:
        words.append(f"{visits.substituted_share:.1%} substituted")
    return ", ".join(words) or "exact"

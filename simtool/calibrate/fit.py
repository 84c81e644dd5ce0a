"""Trace -> Profile: fit every cost of recorded runs. Runs of several placements may be pooled: together they price
ops that no single placement runs, and sizes that no single one reaches.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import polars as pl

from simtool.calibrate.bootstrap import Resample, resamples
from simtool.calibrate.idle_effects import shared_slope, told_apart, without
from simtool.calibrate.launch_bound import launch_bound_warnings
from simtool.calibrate.observations import Observations, Table
from simtool.calibrate.predictor import fit_predictor
from simtool.calibrate.regression import Observation, fit_cost
from simtool.calibrate.step_events import known_events, read_steps
from simtool.errors import ProfileError
from simtool.profile.absorbed import with_absorbed
from simtool.profile.cost import FREE, Cost
from simtool.profile.models import pooled_models
from simtool.profile.profile import HostCost, Profile, Provenance, StepCosts, WorkCost
from simtool.step.graph_buckets import GraphBuckets
from simtool.step.idle_effects import DEVICE_IDLE, HOST_IDLE
from simtool.step.ops import CATALOGUE, DeviceWork, Lane, Op, priced_op
from simtool.trace.manifest import PRICED_ORIGINS
from simtool.trace.trace import Trace
from simtool.version import __version__

#: For a trace that does not tell: on a CPU one device process runs all three lanes in order, elsewhere each lane is
#: a stream of its own.
_ONE_PROCESS = {"prepare": "device", "compute": "device", "copy": "device"}
_STREAMS = {"prepare": "prepare", "compute": "compute", "copy": "copy"}
#: Observations below which a constant is taken from a wider group, and a line is called scarce.
_ENOUGH = 30
#: Refits that tell how uncertain a fit is, where that is wanted: enough for the spread of a figure.
REFITS = 20
_WORKS: dict[str, DeviceWork] = {work.name: work for op in CATALOGUE.values() for work in op.works}


def calibrate(
    traces: Sequence[Trace],
    *,
    name: str | None = None,
    command: str = "simtool.calibrate",
    created: str | None = None,
    refits: int = 0,
    other_models: bool = False,
) -> Profile:
    """Fit a profile to traces of one device, recorded or imported.

    name: default: the first trace's. command, created (ISO date; default: today): provenance. refits: how often every
    cost is fitted again, to resampled steps, to tell how uncertain the fit is; 0: not at all.
    other_models: pool traces of different models too.
    Raises ProfileError when the traces are of different devices or models or one is a replay, TraceError when one
    holds no steps to fit, or ops of another kind of step.
    """
    device, device_name = _one_device(traces)
    _refuse_replays(traces)
    models, doubts = pooled_models([(t.path.name, t.manifest.models) for t in traces], allow_other=other_models)
    executors = _executors(traces[0])
    seen = Observations()
    runs = [read_steps(trace) for trace in traces]
    for trace, steps in zip(traces, runs, strict=True):
        seen.add_run(steps, trace.table("requests")["arrival_ns"], executors)
    fitter = Fitter(resamples([[step.start_ns for step in steps] for steps in runs], refits))
    predictor = fit_predictor(list(traces))
    fitted = Profile(
        name=name or traces[0].path.name,
        device=device,
        device_name=device_name,
        executors=executors,
        prefill=fitter.steps(seen, "prefill"),
        decode=fitter.steps(seen, "decode"),
        loop_gap=fitter.cost(seen.loop_gap),
        predictor=predictor,
        provenance=Provenance(
            command,
            created or date.today().isoformat(),
            __version__,
            tuple(_describe(trace) for trace in traces),
            warnings=(
                *doubts,
                *_warnings(traces, seen, has_predictor=predictor is not None),
                *launch_bound_warnings(runs, executors),
            ),
        ),
        graphs=_graphs(traces),
        models=models,
    )
    return with_absorbed(fitted) if all(trace.manifest.origin == "imported" for trace in traces) else fitted


@dataclass(frozen=True)
class Fitter:
    """Fits costs to observations, and again to each resample."""

    resamples: Sequence[Resample]

    def cost(self, observations: Sequence[Observation], features: Sequence[str] = ()) -> Cost:
        """Return the cost; free when nothing was observed."""
        return fit_cost(observations, features, self.resamples) if observations else FREE

    def steps(self, seen: Observations, kind: str) -> StepCosts:
        """Return the costs of prefill or decode steps."""
        host = {op: self._host(seen, kind, priced_op(op)) for seen_kind, op in seen.pre if seen_kind == kind}
        slope = shared_slope(seen.queue.values(), DEVICE_IDLE)
        queue: Table = defaultdict(list)
        queue.update({key: [without(o, DEVICE_IDLE, slope) for o in values] for key, values in seen.queue.items()})
        device = {
            work: WorkCost(
                self._duration(_WORKS[work], values),
                self._constant(queue, (kind, work), (kind,)).growing(DEVICE_IDLE, slope),
            )
            for (seen_kind, work), values in seen.duration.items()
            if seen_kind == kind
        }
        return StepCosts(host, device)

    def _after(self, observations: Sequence[Observation], features: Sequence[str], past: str) -> Cost:
        """The cost, with what ran before among its features where the recordings tell what that does."""
        return self.cost(observations, (*features, past) if told_apart(observations, features, past) else features)

    def _duration(self, work: DeviceWork, observations: Sequence[Observation]) -> Cost:
        """Uploads and copies are slow after long work of another kind; kernels are too long for it to show."""
        if work.lane is Lane.COMPUTE:
            return self.cost(observations, work.features)
        return self._after(observations, work.features, DEVICE_IDLE)

    def _host(self, seen: Observations, kind: str, op: Op) -> HostCost:
        key = (kind, op.priced_as)
        launches = {work.name: self._constant(seen.launch, (*key, work.name), key, (kind,)) for work in op.works}
        pre = self._after(seen.pre[key], op.features, HOST_IDLE)
        if not op.blocks:
            return HostCost(pre, launches=launches)
        post = self.cost(seen.post[key], op.features)
        return HostCost(pre, post, self._constant(seen.wake, key, (kind,)), launches)

    def _constant(self, table: Table, *keys: tuple[str, ...]) -> Cost:
        """The cost under the first key prefix with observations enough, else the last with any; free when none.

        A device is rarely idle when some work is launched: what one stray observation says must not outvote the others.
        """
        found: list[Observation] = []
        for prefix in keys:
            found = [o for key, values in table.items() if key[: len(prefix)] == prefix for o in values]
            if len(found) >= _ENOUGH:
                break
        return self.cost(found)


def content_hash(trace: Trace) -> str:
    """Return the SHA-256 over a trace's files, by name."""
    digest = hashlib.sha256()
    for path in sorted(path for path in trace.path.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(trace.path).as_posix()}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _one_device(traces: Sequence[Trace]) -> tuple[str, str]:
    if not traces:
        raise ProfileError("no trace given; expected one or more recorded traces")
    devices = {(trace.manifest.device, trace.manifest.device_name): trace.path for trace in traces}
    if len(devices) > 1:
        listed = "; ".join(f"{path}: {device} {name}" for (device, name), path in devices.items())
        raise ProfileError(f"traces of different devices ({listed}); calibrate each device by itself")
    return next(iter(devices))


def _refuse_replays(traces: Sequence[Trace]) -> None:
    """A replay's durations are a profile's: a fit to them would look perfect, and measure nothing."""
    for trace in traces:
        if trace.manifest.origin in PRICED_ORIGINS:
            costs = trace.manifest.replay.costs
            name = "a profile" if costs is None else f"the profile {costs.name!r}"
            raise ProfileError(
                f"{trace.path}: is {trace.manifest.origin}, so its times come from {name}; a profile must come from "
                "live or imported traces: calibrate those, or give that profile with --profile"
            )


def _executors(trace: Trace) -> Mapping[str, str]:
    told = trace.manifest.run.executors
    if told is not None:
        return {lane: told.get(lane, lane) for lane in _STREAMS}  # a lane not named runs by itself
    return _ONE_PROCESS if trace.manifest.device == "cpu" else _STREAMS


def _graphs(traces: Sequence[Trace]) -> GraphBuckets:
    """What was captured is part of what was measured: traces of other buckets belong to another profile."""
    told = {trace.path: trace.manifest.run.graphs for trace in traces}
    if len(set(told.values())) > 1:
        listed = "; ".join(f"{path}: up to {max(graphs.target, default=0)} rows" for path, graphs in told.items())
        raise ProfileError(f"traces of different graph buckets ({listed}); calibrate each kind by itself")
    return next(iter(told.values()))


def _describe(trace: Trace) -> dict[str, object]:
    manifest = trace.manifest
    placement = str(manifest.placement["name"]) if manifest.placement else None
    return {
        "name": trace.path.name,
        "sha256": content_hash(trace),
        "origin": manifest.origin,
        "placement": placement,
        "concurrency": manifest.concurrency,
        "sl": manifest.sl,
        "complete": manifest.complete,
    }


def _left_out(trace: Trace) -> Iterator[str]:
    """What of an import has no name of the catalogue, as a share of the device's time in its steps."""
    events = trace.table("events")
    others = events.join(known_events(trace), on=events.columns, how="anti", nulls_equal=True)
    if others.is_empty():
        return
    busy, lost = (frame.filter(pl.col("lane") != Lane.HOST.value) for frame in (events, others))
    length = (pl.col("end_ns") - pl.col("start_ns")).sum()
    share = lost.select(length).item() / max(busy.select(length).item(), 1)
    names = ", ".join(others["op"].value_counts().sort("count", "op", descending=[True, False])["op"].head(3))
    yield (
        f"{trace.path.name}: {others.height} events are of no op and not priced ({names}, ...), {share:.0%} of the "
        "device's time"
    )


def _warnings(traces: Sequence[Trace], seen: Observations, *, has_predictor: bool) -> Iterable[str]:
    for trace in traces:
        if not trace.manifest.complete:
            yield f"{trace.path.name}: is incomplete; what was flushed is used"
        if trace.manifest.origin != "live":
            yield f"{trace.path.name}: is {trace.manifest.origin}, not a live recording"
        yield from _left_out(trace)
    if not has_predictor:
        yield "no validate-time predictor: validate rows never varied; add a trace whose placement prunes"
    if not any(kind == "prefill" for kind, _ in seen.pre):
        yield "no prefill step: a replay needs one; add a whole recording"
    scarce = [
        f"{op} ({len(values)})" for (kind, op), values in seen.pre.items() if kind == "decode" and len(values) < _ENOUGH
    ]
    if scarce:
        yield f"fewer than 30 observations of {', '.join(scarce)}; record longer"

"""Trace -> Profile: fit every cost of recorded runs. Runs of several placements may be pooled: together they price
ops that no single placement runs, and sizes that no single one reaches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date

import polars as pl

from simtool.calibrate.bootstrap import resamples
from simtool.calibrate.fitter import ENOUGH, Fitter, SharedQueue
from simtool.calibrate.launch_bound import LaunchBound
from simtool.calibrate.observations import Observations, Observer
from simtool.calibrate.predictor import fit_predictor
from simtool.calibrate.step_events import known_events, step_stretches
from simtool.calibrate.step_sizes import read_step_sizes
from simtool.errors import ProfileError
from simtool.profile.absorbed import with_absorbed
from simtool.profile.models import pooled_models
from simtool.profile.profile import Profile, Provenance
from simtool.step.graph_buckets import GraphBuckets
from simtool.step.ops import Lane
from simtool.step.placement import BUILT_IN
from simtool.trace.importers.recorded_order import recorded_order
from simtool.trace.manifest import PRICED_ORIGINS
from simtool.trace.trace import Trace
from simtool.version import __version__

#: For a trace that does not tell: on a CPU one device process runs all three lanes in order, elsewhere each lane is
#: a stream of its own.
_ONE_PROCESS = {"prepare": "device", "compute": "device", "copy": "device"}
_STREAMS = {"prepare": "prepare", "compute": "compute", "copy": "copy"}
_CHUNK_BYTES = 1 << 20


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
    refuse_replays(traces)
    models, doubts = pooled_models([(t.path.name, t.manifest.models) for t in traces], allow_other=other_models)
    executors = _executors(traces[0])
    seen, bound = _observe(traces, executors)
    fitter = Fitter(resamples(seen.runs_ns, refits))
    predictor = fit_predictor(list(traces))
    queued = SharedQueue.of(seen.queue)
    fitted = Profile(
        name=name or traces[0].path.name,
        device=device,
        device_name=device_name,
        executors=executors,
        prefill=fitter.steps(seen, queued, "prefill"),
        decode=fitter.steps(seen, queued, "decode"),
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
                *bound.warnings(),
            ),
        ),
        graphs=_graphs(traces),
        models=models,
    )
    if not all(trace.manifest.origin == "imported" for trace in traces):
        return fitted
    return with_absorbed(fitted, recorded_order(traces[0]) or BUILT_IN["static"])


def _observe(traces: Sequence[Trace], executors: Mapping[str, str]) -> tuple[Observations, LaunchBound]:
    """Read the traces, some thousand steps at a time."""
    observer, bound = Observer(executors), LaunchBound(executors)
    for trace in traces:
        sizes = read_step_sizes(trace)
        run = observer.run(sizes)
        for steps in step_stretches(trace, sizes):
            run.add(steps)
            bound.add(steps)
        run.close(trace.columns("requests", "arrival_ns")["arrival_ns"].to_numpy())
    return observer.observations(), bound


def content_hash(trace: Trace) -> str:
    """Return the SHA-256 over a trace's files, by name."""
    digest = hashlib.sha256()
    for path in sorted(path for path in trace.path.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(trace.path).as_posix()}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


def _one_device(traces: Sequence[Trace]) -> tuple[str, str]:
    if not traces:
        raise ProfileError("no trace given; expected one or more recorded traces")
    devices = {(trace.manifest.device, trace.manifest.device_name): trace.path for trace in traces}
    if len(devices) > 1:
        listed = "; ".join(f"{path}: {device} {name}" for (device, name), path in devices.items())
        raise ProfileError(f"traces of different devices ({listed}); calibrate each device by itself")
    return next(iter(devices))


def refuse_replays(traces: Sequence[Trace]) -> None:
    """Raise ProfileError for a replay: its durations are a profile's, so a fit to them would look perfect, and measure
    nothing. The manifest tells, so a caller can ask before it looks at tables.
    """
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
    if trace.manifest.origin != "imported":
        return
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
        f"{op} ({len(values)})" for (kind, op), values in seen.pre.items() if kind == "decode" and len(values) < ENOUGH
    ]
    if scarce:
        yield f"fewer than 30 observations of {', '.join(scarce)}; record longer"

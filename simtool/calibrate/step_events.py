"""A trace's events as steps of ops with their device work: the form that every fit reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import polars as pl

from simtool.calibrate.step_sizes import StepSizes
from simtool.errors import TraceError
from simtool.step.ops import CATALOGUE, DeviceWork, Lane, Op, syncing
from simtool.trace.trace import Trace

_UNKNOWN = "is not in the catalogue, so it has no cost features; import it with --map, rules that name its ops"
_WORKS: dict[str, DeviceWork] = {work.name: work for op in CATALOGUE.values() for work in op.works}
_READ = ("step", "op", "lane", "start_ns", "end_ns", "wait_start_ns", "wait_end_ns", "flow")


class WorkRecord(NamedTuple):
    """One piece of device work that ran; times in ns."""

    name: str
    lane: str
    start_ns: int
    end_ns: int


class OpRecord(NamedTuple):
    """One host op that ran, and the device work that it launched, in launch order."""

    op: Op
    start_ns: int
    end_ns: int
    wait_start_ns: int | None
    wait_end_ns: int | None
    works: tuple[WorkRecord, ...] = ()

    @property
    def resumed_ns(self) -> int:
        """Where its busy time after the wait begins; the op's start when it never waited."""
        return self.start_ns if self.wait_end_ns is None else self.wait_end_ns

    def inputs(self, giver: Mapping[str, WorkRecord]) -> list[WorkRecord]:
        """Return the device work whose results it reads. giver: datum -> the work that gave it."""
        return [giver[need] for need in self.op.needs if need in giver]

    def gives_to(self, giver: dict[str, WorkRecord]) -> None:
        """Note its last device work as the giver of its data."""
        if self.works:
            giver.update(dict.fromkeys(self.op.gives, self.works[-1]))

    @property
    def early_works(self) -> tuple[WorkRecord, ...]:
        """What it launched before any wait."""
        return self.works[: len(self.works) - self.op.late]

    @property
    def pre_end_ns(self) -> int:
        """Where its busy time before the wait ends; the op's end when it never waited."""
        return self.end_ns if self.wait_start_ns is None else self.wait_start_ns


class StepRecord(NamedTuple):
    """One step: its place among all of its trace, its kind (prefill or decode), and its ops in host order."""

    place: int
    kind: str
    ops: list[OpRecord]


def step_stretches(trace: Trace, sizes: StepSizes) -> Iterator[list[StepRecord]]:
    """Yield some of a trace's steps after another, in order; one whose sizes are not known (cut off by a kill) is
    left out.

    An import's events of other names are left out: they are another engine's, and have no features.
    Raises TraceError when the trace holds no host ops of the catalogue, as an imported profile may not, device work
    that is not in it, or an op in a kind of step that lacks what it grows with.
    """
    told, found = _Ops(trace, sizes), False
    for events in _stretches(trace):
        steps = told.steps(events)
        found = found or bool(steps)
        if steps:
            yield steps
    if not found:
        raise TraceError(f"{trace.path}: no step with both its ops and its sizes; calibrate from a recorded trace")


def _stretches(trace: Trace) -> Iterator[pl.DataFrame]:
    """Events; of an import all at once, for its device work may lie in another step than what launched it."""
    if trace.manifest.origin != "imported":
        yield from trace.stretches("events", *_READ)
        return
    yield _one_work_each(known_events(trace))


class _Ops:
    """Makes steps of events."""

    def __init__(self, trace: Trace, sizes: StepSizes) -> None:
        self._path, self._sizes = trace.path, sizes
        steps = sizes.steps.select("step", "kind").with_row_index("place")
        self._known = steps.filter(pl.Series(sizes.decode | sizes.prefill)).select("step", "kind", "place")
        self._fits: set[tuple[str, bool, bool]] = set()
        syncs = {op.name for op in trace.placement.ever_runs() if op.syncs} if trace.manifest.placement else set()
        self._syncing = {name: syncing(CATALOGUE[name]) for name in syncs}

    def steps(self, events: pl.DataFrame) -> list[StepRecord]:
        """Return the steps of some events."""
        ops = self._ops(events.sort("start_ns", maintain_order=True))
        asked = pl.DataFrame({"step": pl.Series(sorted(ops), dtype=pl.Int32)})
        known = asked.join(self._known, on="step", maintain_order="left")
        records = [StepRecord(place, kind, ops[step]) for step, kind, place in known.iter_rows()]
        for record in records:
            self._check_sizes(record)
        return records

    def _ops(self, events: pl.DataFrame) -> dict[int, list[OpRecord]]:
        works: dict[int, list[WorkRecord]] = {}
        device = events.filter(pl.col("lane") != Lane.HOST.value)
        for name, lane, start_ns, end_ns, flow in device.select("op", "lane", "start_ns", "end_ns", "flow").iter_rows():
            if name not in _WORKS:
                raise TraceError(f"{self._path}: device work {name!r} {_UNKNOWN}")
            works.setdefault(flow, []).append(WorkRecord(name, lane, start_ns, end_ns))
        steps: dict[int, list[OpRecord]] = {}
        host = events.filter(pl.col("lane") == Lane.HOST.value)
        columns = ("step", "flow", "op", "start_ns", "end_ns", "wait_start_ns", "wait_end_ns")
        for step, flow, name, start_ns, end_ns, wait_start_ns, wait_end_ns in host.select(columns).iter_rows():
            if name not in CATALOGUE:
                raise TraceError(f"{self._path}: host op {name!r} {_UNKNOWN}")
            op = CATALOGUE[name]
            if wait_end_ns is not None and name in self._syncing:
                op = self._syncing[name]
            record = OpRecord(op, start_ns, end_ns, wait_start_ns, wait_end_ns, tuple(works.get(flow, ())))
            steps.setdefault(step, []).append(record)
        return steps

    def _check_sizes(self, record: StepRecord) -> None:
        """Refuse an op or work that grows with what this kind of step has not: its tables are of different runs."""
        decodes = bool(self._sizes.decode[record.place])
        for op in record.ops:
            for name, on_host, features in _growing(op):
                if (name, on_host, decodes) in self._fits:
                    continue
                for feature in features:
                    if not self._sizes.has(feature, record.place):
                        step = self._sizes.steps["step"][record.place]
                        raise TraceError(_misplaced(self._path, step, record.kind, name, feature))
                self._fits.add((name, on_host, decodes))


def _growing(record: OpRecord) -> Iterator[tuple[str, bool, tuple[str, ...]]]:
    """Yield an op and its works, each with whether it is the op, and what it grows with."""
    yield record.op.name, True, record.op.features
    for work in record.works:
        yield work.name, False, _WORKS[work.name].features


def _misplaced(source: Path, step: int, kind: str, name: str, feature: str) -> str:
    return (
        f"{source}: step {step} is a {kind} step, yet ran {name}, which grows with {feature}; its tables are of "
        f"different runs: see `simtool inspect {source}`"
    )


def _one_work_each(events: pl.DataFrame) -> pl.DataFrame:
    """The events of an import with all kernels of one work of a launch as one, from the first to the last."""
    device = events.filter(pl.col("lane") != Lane.HOST.value)
    work = ["flow", "op", "lane"]
    whole = device.group_by(work).agg(pl.col("start_ns").min(), pl.col("end_ns").max(), pl.col("bytes").sum())
    merged = device.unique(work, keep="first").update(whole, on=work)
    return pl.concat([events.filter(pl.col("lane") == Lane.HOST.value), merged])


def known_events(trace: Trace) -> pl.DataFrame:
    """Return the events that can be priced: of an import, those of the catalogue's names; else all."""
    events = trace.table("events")
    if trace.manifest.origin != "imported":
        return events
    is_host = pl.col("lane") == Lane.HOST.value
    return events.filter(
        pl.when(is_host).then(pl.col("op").is_in(list(CATALOGUE))).otherwise(pl.col("op").is_in(list(_WORKS)))
    )

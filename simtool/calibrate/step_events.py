"""A trace's events as steps of ops with their device work: the form that every fit reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from simtool.errors import TraceError
from simtool.step.cost_features import DecodeShape, prefill_features
from simtool.step.ops import CATALOGUE, DeviceWork, Lane, Op, syncing
from simtool.trace.trace import Trace

_UNKNOWN = "is not in the catalogue, so it has no cost features; import it with --map, rules that name its ops"
_WORKS: dict[str, DeviceWork] = {work.name: work for op in CATALOGUE.values() for work in op.works}


@dataclass(frozen=True)
class WorkRecord:
    """One piece of device work that ran; times in ns."""

    name: str
    lane: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class OpRecord:
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


@dataclass(frozen=True)
class StepRecord:
    """One step: its kind (prefill or decode), its sizes, and its ops in host order."""

    step: int
    kind: str
    start_ns: int
    end_ns: int
    features: Mapping[str, float]
    ops: list[OpRecord] = field(default_factory=list)


def read_steps(trace: Trace) -> list[StepRecord]:
    """Return the trace's steps in order; a step whose sizes are not recorded (cut off by a kill) is left out.

    An import's events of other names are left out: they are another engine's, and have no features.
    Raises TraceError when the trace holds no host ops of the catalogue, as an imported profile may not, device work
    that is not in it, or an op in a kind of step that lacks what it grows with.
    """
    features = dict(_decode_features(trace)) | dict(_prefill_features(trace))
    ops = _read_ops(trace)
    records = []
    for step, kind, start_ns, end_ns in trace.table("steps").select("step", "kind", "start_ns", "end_ns").iter_rows():
        if step in features and step in ops:
            records.append(
                StepRecord(
                    step=step, kind=kind, start_ns=start_ns, end_ns=end_ns, features=features[step], ops=ops[step]
                )
            )
            _check_features(records[-1], trace.path)
    if not records:
        raise TraceError(f"{trace.path}: no step with both its ops and its sizes; calibrate from a recorded trace")
    return records


def _check_features(record: StepRecord, source: Path) -> None:
    """Refuse an op or work that grows with what this kind of step has not: events and steps are of different runs."""
    for op in record.ops:
        for name, features in ((op.op.name, op.op.features), *((w.name, _WORKS[w.name].features) for w in op.works)):
            for feature in features:
                if feature not in record.features:
                    raise TraceError(
                        f"{source}: step {record.step} is a {record.kind} step, yet ran {name}, which grows with "
                        f"{feature}; its tables are of different runs: see `simtool inspect {source}`"
                    )


def _one_work_each(events: pl.DataFrame) -> pl.DataFrame:
    """The events of an import with all kernels of one work of a launch as one, from the first to the last."""
    device = events.filter(pl.col("lane") != Lane.HOST.value)
    work = ["flow", "op", "lane"]
    whole = device.group_by(work).agg(pl.col("start_ns").min(), pl.col("end_ns").max(), pl.col("bytes").sum())
    merged = device.unique(work, keep="first").update(whole, on=work)
    return pl.concat([events.filter(pl.col("lane") == Lane.HOST.value), merged])


def _read_ops(trace: Trace) -> dict[int, list[OpRecord]]:
    events = _one_work_each(known_events(trace)) if trace.manifest.origin == "imported" else known_events(trace)
    events = events.sort("start_ns")
    works: dict[int, list[WorkRecord]] = {}
    device = events.filter(pl.col("lane") != Lane.HOST.value)
    for name, lane, start_ns, end_ns, flow in device.select("op", "lane", "start_ns", "end_ns", "flow").iter_rows():
        if name not in _WORKS:
            raise TraceError(f"{trace.path}: device work {name!r} {_UNKNOWN}")
        works.setdefault(flow, []).append(WorkRecord(name, lane, start_ns, end_ns))
    steps: dict[int, list[OpRecord]] = {}
    host = events.filter(pl.col("lane") == Lane.HOST.value)
    syncs = {op.name for op in trace.placement.ever_runs() if op.syncs} if trace.manifest.placement else set()
    columns = ("step", "flow", "op", "start_ns", "end_ns", "wait_start_ns", "wait_end_ns")
    for step, flow, name, start_ns, end_ns, wait_start_ns, wait_end_ns in host.select(columns).iter_rows():
        if name not in CATALOGUE:
            raise TraceError(f"{trace.path}: host op {name!r} {_UNKNOWN}")
        op = syncing(CATALOGUE[name]) if name in syncs and wait_end_ns is not None else CATALOGUE[name]
        record = OpRecord(
            op=op,
            start_ns=start_ns,
            end_ns=end_ns,
            wait_start_ns=wait_start_ns,
            wait_end_ns=wait_end_ns,
            works=tuple(works.get(flow, ())),
        )
        steps.setdefault(step, []).append(record)
    return steps


def known_events(trace: Trace) -> pl.DataFrame:
    """Return the events that can be priced: of an import, those of the catalogue's names; else all."""
    events = trace.table("events")
    if trace.manifest.origin != "imported":
        return events
    is_host = pl.col("lane") == Lane.HOST.value
    return events.filter(
        pl.when(is_host).then(pl.col("op").is_in(list(CATALOGUE))).otherwise(pl.col("op").is_in(list(_WORKS)))
    )


def _decode_features(trace: Trace) -> Iterator[tuple[int, dict[str, float]]]:
    manifest = trace.manifest
    steps = trace.table("rows").group_by("step", maintain_order=True).agg("kv_len", "prefix_len", "emitted")
    graphs = manifest.run.graphs
    for step, kv_lens, prefix_lens, emitted in steps.iter_rows():
        yield (
            step,
            DecodeShape(
                num_speculative_tokens=manifest.sl,
                block_width=manifest.block_width,
                kv_lens=kv_lens,
                prefix_lens=prefix_lens,
                emitted=emitted,
                graphs=graphs,
            ).features(),
        )


def _prefill_features(trace: Trace) -> Iterator[tuple[int, dict[str, float]]]:
    """A request belongs to the prefill step in which it got its first token."""
    requests = trace.table("requests").select("first_token_ns", "prompt_tokens").drop_nulls()
    prefills = trace.table("steps").filter(pl.col("kind") == "prefill")
    for step, start_ns, end_ns, batch in prefills.select("step", "start_ns", "end_ns", "batch").iter_rows():
        inside = requests.filter(pl.col("first_token_ns").is_between(start_ns, end_ns))
        if len(inside) == batch:
            yield step, prefill_features(inside["prompt_tokens"].to_list())

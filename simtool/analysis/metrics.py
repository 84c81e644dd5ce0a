"""What a run did, as counts and total times; every rate is a property made from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from simtool.analysis.busy import device_busy
from simtool.analysis.critical_path.critical_path import Part, critical_path
from simtool.step.ops import Lane
from simtool.trace.trace import Trace
from simtool.units import NS_PER_S

Tables = Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class Spread:
    """A set of durations in ns: how many, their sum, and three percentiles."""

    count: int
    total_ns: int
    p50_ns: float
    p95_ns: float
    p99_ns: float

    @property
    def mean_ns(self) -> float | None:
        """Mean, or None when there is none to average."""
        return self.total_ns / self.count if self.count else None


@dataclass(frozen=True)
class Summary:
    """Counts and total times of one run.

    span_ns: first step's start to last step's end. The full_ fields count decode steps at full occupancy (the
    largest batch of the run): their number, emitted tokens and total time, prefill steps in between left out.
    slots: how many sequences the batch could hold; None: not known.
    device_idle_ns, host_busy_ns, exposed_ns: over all decode steps. Exposed is host work on the critical path with no
    device lane running; the rest of the idle time is launch and wake-up latency.
    emitted: tokens of decode steps, after cuts. queued: from a request's arrival to its admission.
    offered_at[k-1], accepted_at[k-1]: rows whose k-th draft was offered, was accepted.
    """

    requests: int
    finished: int
    decode_steps: int
    prefill_steps: int
    pruned_steps: int
    output_tokens: int
    span_ns: int
    full_batch: int
    full_steps: int
    full_tokens: int
    full_ns: int
    sequence_steps: int
    emitted: int
    offered: int
    accepted: int
    offered_at: tuple[int, ...]
    accepted_at: tuple[int, ...]
    step: Spread
    tpot: Spread
    ttft: Spread
    queued: Spread
    device_idle_ns: int
    host_busy_ns: int
    exposed_ns: int
    slots: int | None = None

    @property
    def full(self) -> bool:
        """Whether all slots were ever busy at once; where slots are not known, the largest batch counts as full."""
        return self.slots is None or self.full_batch >= self.slots

    @property
    def tokens_per_s(self) -> float | None:
        """Output tokens per second of the whole run, ramp-up and ramp-down included."""
        return _rate(self.output_tokens * NS_PER_S, self.span_ns)

    @property
    def steady_tokens_per_s(self) -> float | None:
        """Tokens per second of decode steps at full occupancy; None when that was never reached."""
        return _rate(self.full_tokens * NS_PER_S, self.full_ns) if self.full else None

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted drafts over offered drafts."""
        return _rate(self.accepted, self.offered)

    @property
    def acceptance_length(self) -> float | None:
        """Mean of a sequence-step's accepted drafts + 1, the bonus token: before any cut. See `emitted_length`."""
        return _rate(self.accepted + self.sequence_steps, self.sequence_steps)

    @property
    def emitted_length(self) -> float | None:
        """Mean tokens that a sequence-step really emits, once a stop token or the length limit has cut its block."""
        return _rate(self.emitted, self.sequence_steps)

    @property
    def device_idle_per_step_ns(self) -> float | None:
        """Mean time of a decode step in which no device lane ran."""
        return _rate(self.device_idle_ns, self.decode_steps)

    @property
    def exposed_per_step_ns(self) -> float | None:
        """Mean host work of a decode step that the device idly waited for."""
        return _rate(self.exposed_ns, self.decode_steps)


def summarise_trace(trace: Trace) -> Summary:
    """Summarise a trace; see `summarise`."""
    tables = {name: trace.table(name) for name in ("requests", "steps", "rows", "events")}
    return summarise(tables, executors_of(trace), trace.manifest.concurrency)


def executors_of(trace: Trace) -> dict[str, str]:
    """Return which executor runs each lane, from the manifest; lanes not named run by themselves."""
    return dict(trace.manifest.run.executors or {})


def summarise(tables: Tables, executors: Mapping[str, str], slots: int | None = None) -> Summary:
    """Summarise the tables requests, steps, rows and events of one run. slots: of its batch, where known."""
    steps, rows, requests = tables["steps"], tables["rows"], tables["requests"]
    decode = decode_steps(steps, rows)
    full = full_occupancy(decode)
    length = _max_prefix(rows)
    return Summary(
        requests=requests.height,
        finished=requests["finished_ns"].count(),
        decode_steps=decode.height,
        prefill_steps=steps.filter(pl.col("kind") == "prefill").height,
        pruned_steps=int(decode["pruned"].sum()),
        output_tokens=int(requests["output_tokens"].sum()),
        span_ns=_span_ns(steps),
        full_batch=_whole(decode["batch"].max()),
        full_steps=full.height,
        full_tokens=int(full["tokens"].sum()),
        full_ns=int(full["duration_ns"].sum()),
        sequence_steps=rows.height,
        emitted=int(rows["emitted"].sum()),
        offered=int(rows["prefix_len"].sum()),
        accepted=int(rows["accepted"].sum()),
        offered_at=tuple(int((rows["prefix_len"] >= k).sum()) for k in range(1, length + 1)),
        accepted_at=tuple(int((rows["accepted"] >= k).sum()) for k in range(1, length + 1)),
        step=spread(decode["duration_ns"].to_numpy()),
        tpot=spread(_tpot_ns(requests)),
        ttft=spread((requests["first_token_ns"] - requests["arrival_ns"]).drop_nulls().to_numpy()),
        queued=spread((requests["admitted_ns"] - requests["arrival_ns"]).drop_nulls().to_numpy()),
        slots=slots,
        **_occupation(decode, tables["events"], executors),
    )


def decode_steps(steps: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the decode steps with duration_ns and tokens (emitted by all their sequences)."""
    emitted = rows.group_by("step").agg(pl.col("emitted").sum().cast(pl.Int64).alias("tokens"))
    duration = (pl.col("end_ns") - pl.col("start_ns")).alias("duration_ns")
    decode = steps.filter(pl.col("kind") == "decode").with_columns(duration).join(emitted, on="step", how="left")
    return decode.with_columns(pl.col("tokens").fill_null(0)).sort("step")


def full_occupancy(decode: pl.DataFrame) -> pl.DataFrame:
    """Return the decode steps whose batch is the largest of the run."""
    return decode.filter(pl.col("batch") == pl.col("batch").max())


def whole_run_tokens_per_s(requests: pl.DataFrame, steps: pl.DataFrame) -> float:
    """Return output tokens over the span of a run that has steps."""
    return _rate(int(requests["output_tokens"].sum()) * NS_PER_S, _span_ns(steps)) or 0.0


def spread(durations_ns: NDArray[np.generic]) -> Spread:
    """Return count, sum and percentiles; an empty set has percentiles 0."""
    if not len(durations_ns):
        return Spread(count=0, total_ns=0, p50_ns=0.0, p95_ns=0.0, p99_ns=0.0)
    p50, p95, p99 = np.percentile(durations_ns.astype(np.float64), (50, 95, 99))
    return Spread(
        count=len(durations_ns),
        total_ns=int(durations_ns.sum()),
        p50_ns=float(p50),
        p95_ns=float(p95),
        p99_ns=float(p99),
    )


def _tpot_ns(requests: pl.DataFrame) -> NDArray[np.generic]:
    """Time per output token of each finished request of two tokens or more, in ns."""
    done = requests.filter(pl.col("finished_ns").is_not_null() & (pl.col("output_tokens") > 1))
    return ((done["finished_ns"] - done["first_token_ns"]) / (done["output_tokens"] - 1)).to_numpy()


def _occupation(decode: pl.DataFrame, events: pl.DataFrame, executors: Mapping[str, str]) -> dict[str, int]:
    covered = int(device_busy(events).within(decode["start_ns"], decode["end_ns"]).sum())
    host = events.filter((pl.col("lane") == Lane.HOST.value) & pl.col("step").is_in(decode["step"].implode()))
    waited = (pl.col("wait_end_ns") - pl.col("wait_start_ns")).fill_null(0)
    busy = host.select((pl.col("end_ns") - pl.col("start_ns") - waited).sum()).item()
    path = critical_path(decode, events, executors)
    return {
        "device_idle_ns": int(decode["duration_ns"].sum()) - covered,
        "host_busy_ns": int(busy),
        "exposed_ns": int(path.segments.filter(pl.col("part") == Part.HOST.value)["exposed_ns"].sum()),
    }


def _span_ns(steps: pl.DataFrame) -> int:
    return _whole(steps["end_ns"].max()) - _whole(steps["start_ns"].min())


def _max_prefix(rows: pl.DataFrame) -> int:
    return _whole(rows["prefix_len"].max())


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _rate(count: int, total: int) -> float | None:
    return count / total if total else None

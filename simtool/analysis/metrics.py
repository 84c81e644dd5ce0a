"""What a run did, as counts and total times; every rate is a property made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from simtool.analysis.critical_path.critical_path import Part
from simtool.analysis.critical_path.totals import busy_of, decode_totals
from simtool.step.ops import Lane
from simtool.trace.trace import Trace
from simtool.units import NS_PER_S


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
    """Return the counts and total times of a trace's run; raises TraceError for a table that cannot be read."""
    return trace.once("summary", _summarise_trace)


def _summarise_trace(trace: Trace) -> Summary:
    requests = trace.columns(
        "requests", "arrival_ns", "admitted_ns", "first_token_ns", "finished_ns", "output_tokens"
    )  # fmt: skip
    steps = trace.columns("steps", "step", "kind", "start_ns", "end_ns", "batch", "pruned")
    counts = _count(trace.stretches("rows", "step", "prefix_len", "accepted", "emitted"))
    decode = _decode_steps(steps, counts.tokens)
    full = full_occupancy(decode)
    paths, on_host = decode_totals(trace), pl.col("lane") == Lane.HOST.value
    busy_ns = int(busy_of(trace).within(decode["start_ns"], decode["end_ns"]).sum())
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
        sequence_steps=counts.rows,
        emitted=int(counts.tokens["tokens"].sum()),
        offered=counts.offered,
        accepted=counts.accepted,
        offered_at=counts.offered_at,
        accepted_at=counts.accepted_at,
        step=spread(decode["duration_ns"].to_numpy()),
        tpot=spread(_tpot_ns(requests)),
        ttft=spread((requests["first_token_ns"] - requests["arrival_ns"]).drop_nulls().to_numpy()),
        queued=spread((requests["admitted_ns"] - requests["arrival_ns"]).drop_nulls().to_numpy()),
        device_idle_ns=int(decode["duration_ns"].sum()) - busy_ns,
        host_busy_ns=int(paths.op_sums.filter(on_host)["duration_ns"].sum()),
        exposed_ns=int(paths.parts.filter(pl.col("part") == Part.HOST.value)["exposed_ns"].sum()),
        slots=trace.manifest.concurrency,
    )


@dataclass(frozen=True)
class _RowCounts:
    """What the rows of a run add up to. tokens: step, tokens emitted in it. offered_at, accepted_at: see `Summary`."""

    rows: int
    tokens: pl.DataFrame
    offered: int
    accepted: int
    offered_at: tuple[int, ...]
    accepted_at: tuple[int, ...]


def _count(stretches: Iterable[pl.DataFrame]) -> _RowCounts:
    """Count rows; drafts by how many rows have so many of them."""
    tokens, height = [_NO_TOKENS], 0
    drafts: dict[str, list[pl.DataFrame]] = {"prefix_len": [], "accepted": []}
    for rows in stretches:
        height += rows.height
        tokens.append(tokens_by_step(rows))
        for name, found in drafts.items():
            found.append(rows.group_by(pl.col(name).alias("drafts")).len("rows"))
    offered, accepted = (_by_drafts(found) for found in drafts.values())
    length = max(offered, default=0)
    return _RowCounts(
        rows=height,
        tokens=pl.concat(tokens),
        offered=sum(drafts * rows for drafts, rows in offered.items()),
        accepted=sum(drafts * rows for drafts, rows in accepted.items()),
        offered_at=tuple(_at_least(k, offered) for k in range(1, length + 1)),
        accepted_at=tuple(_at_least(k, accepted) for k in range(1, length + 1)),
    )


def _by_drafts(found: Sequence[pl.DataFrame]) -> dict[int, int]:
    return dict(pl.concat(found).group_by("drafts").agg(pl.col("rows").sum()).iter_rows()) if found else {}


def _at_least(k: int, rows: Mapping[int, int]) -> int:
    return sum(count for drafts, count in rows.items() if drafts >= k)


_NO_TOKENS = pl.DataFrame(schema={"step": pl.Int32, "tokens": pl.Int64})


def tokens_by_step(rows: pl.DataFrame) -> pl.DataFrame:
    """Return step and tokens, emitted by all its sequences, of each step that has rows."""
    return rows.group_by("step").agg(pl.col("emitted").sum().cast(pl.Int64).alias("tokens"))


def emitted_by_step(trace: Trace) -> pl.DataFrame:
    """Return `tokens_by_step` of a trace."""
    return trace.once("tokens by step", _emitted_by_step)


def _emitted_by_step(trace: Trace) -> pl.DataFrame:
    parts = [tokens_by_step(rows) for rows in trace.stretches("rows", "step", "emitted")]
    return pl.concat([_NO_TOKENS, *parts])


def decode_steps_of(trace: Trace) -> pl.DataFrame:
    """Return a trace's decode steps as `decode_steps` does."""
    return _decode_steps(trace.table("steps"), emitted_by_step(trace))


def decode_steps(steps: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the decode steps with duration_ns and tokens (emitted by all their sequences)."""
    return _decode_steps(steps, tokens_by_step(rows))


def _decode_steps(steps: pl.DataFrame, tokens: pl.DataFrame) -> pl.DataFrame:
    duration = (pl.col("end_ns") - pl.col("start_ns")).alias("duration_ns")
    decode = steps.filter(pl.col("kind") == "decode").with_columns(duration).join(tokens, on="step", how="left")
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
    known = pl.col("finished_ns").is_not_null() & pl.col("first_token_ns").is_not_null()
    done = requests.filter(known & (pl.col("output_tokens") > 1))
    return ((done["finished_ns"] - done["first_token_ns"]) / (done["output_tokens"] - 1)).to_numpy()


def _span_ns(steps: pl.DataFrame) -> int:
    return _whole(steps["end_ns"].max()) - _whole(steps["start_ns"].min())


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _rate(count: int, total: int) -> float | None:
    return count / total if total else None

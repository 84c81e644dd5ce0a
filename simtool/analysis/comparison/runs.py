"""One run as a comparison needs it: its steps, when it ran, and what it holds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from simtool.analysis.comparison.headline import Metric
from simtool.analysis.metrics import decode_steps_of, emitted_by_step, full_occupancy
from simtool.step.beyond import Beyond, stretch_of
from simtool.trace.trace import Trace
from simtool.units import NS_PER_S

Counts = NDArray[np.int64]

#: The flat columns of rows: with the steps they tell two runs apart.
_ROWS = ("step", "request_id", "slot", "anchor_position", "prefix_len", "accepted", "emitted")
#: What a sampled text follows from, besides its prompt.
_SAMPLED = ("temperature", "top_k", "top_p", "seed")


@dataclass(frozen=True)
class Whole:
    """All steps of a run, prefills too. tokens: emitted, [steps]; duration_ns: to the next step's start, [steps].

    batch: the largest. filled: whether all slots were ever busy at once. start_ns, end_ns: on the run's clock.
    """

    tokens: Counts
    duration_ns: Counts
    batch: int
    filled: bool
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Run:
    """One trace's decode steps at full occupancy. tokens, duration_ns: [steps].

    workload: names the tokens that the run must emit (settled texts of given requests); None when chance decides.
    cycles: how often its distinct prompts could fill its batch; None: not known. refitted: priced at a draw of what
    the costs may be, and not at the fit. stretch: how far its step was priced beyond the calibrated sizes.
    whole: the rest of the run; None in a study, which keeps the full batch only.
    """

    name: str
    tokens: Counts
    duration_ns: Counts
    workload: str | None = None
    whole: Whole | None = None
    cycles: float | None = None
    refitted: bool = False
    stretch: Beyond | None = None


def run_of(trace: Trace) -> Run:
    """Return a trace's run."""
    return trace.once("run", _run_of)


def _run_of(trace: Trace) -> Run:
    full = full_occupancy(decode_steps_of(trace))
    return Run(
        name=str(trace.path),
        tokens=full["tokens"].to_numpy(),
        duration_ns=full["duration_ns"].to_numpy(),
        workload=_workload(trace),
        whole=_whole(trace) if full.height else None,
        cycles=cycles_of(trace, full),
        refitted=trace.manifest.replay.refit is not None,
        stretch=stretch_of(trace.manifest.replay.beyond),
    )


def cycles_of(trace: Trace, full: pl.DataFrame) -> float | None:
    """Return distinct prompts over the largest batch; full: the steps of that batch. None where there are none.

    Prompts are the sample of which a run is an example; one that is queued again adds nothing to it.
    """
    if full.is_empty():
        return None
    return distinct_prompts(trace.columns("requests", "prompt_ids")) / int(full["batch"].to_numpy()[0])


def distinct_prompts(requests: pl.DataFrame) -> int:
    """Return how many prompts requests have; where one is not known, each counts."""
    known = requests["prompt_ids"]
    return requests.height if known.null_count() else known.n_unique()


def series(run: Run, metric: Metric) -> tuple[Counts, Counts]:
    """Return the tokens and durations in ns of the steps that a metric counts."""
    if metric is not Metric.WHOLE_RUN:
        return run.tokens, run.duration_ns
    if run.whole is None:
        raise ValueError(f"{run.name} keeps its full batch only; compare it by tokens_per_s")
    return run.whole.tokens, run.whole.duration_ns


def metric_value(run: Run, metric: Metric) -> float:
    """Return tokens per second, or ns per step, of one run."""
    tokens, duration_ns = series(run, metric)
    if metric is Metric.STEP_TIME:
        return float(duration_ns.mean())
    return float(tokens.sum() * NS_PER_S / duration_ns.sum())


def _whole(trace: Trace) -> Whole:
    """A prefill emits the first token of each request in its batch; a decode step what its rows say."""
    steps = trace.table("steps")
    ordered = steps.join(emitted_by_step(trace), on="step", how="left").sort("start_ns", "step")
    first = pl.when(pl.col("kind") == "prefill").then(pl.col("batch").cast(pl.Int64)).otherwise(0)
    tokens = ordered.select(pl.col("tokens").fill_null(first))["tokens"].to_numpy()
    starts, ends = ordered["start_ns"].to_numpy(), ordered["end_ns"].to_numpy()
    batch = int(steps.filter(pl.col("kind") == "decode")["batch"].to_numpy().max())
    return Whole(
        tokens=tokens,
        duration_ns=np.diff(np.append(starts, ends[-1])),
        batch=batch,
        filled=batch >= trace.manifest.concurrency,
        start_ns=int(starts[0]),
        end_ns=int(ends.max()),
    )


def content_of(trace: Trace) -> str:
    """Return a name of what a trace's steps and rows hold; runs of one content are one run."""
    told = hashlib.sha256(trace.table("steps").write_csv().encode())
    for rows in trace.stretches("rows", *_ROWS):
        told.update(rows.write_csv(include_header=False).encode())
    return told.hexdigest()


def _workload(trace: Trace) -> str | None:
    manifest = trace.manifest
    if not manifest.settled or manifest.sampling.get("temperature") is None:
        return None
    sampled = [manifest.sampling.get(name) for name in _SAMPLED] if manifest.sampling["temperature"] else ""
    asked = trace.columns("requests", "request_id", "prompt_tokens", "max_new_tokens", "prompt_ids").rows()
    return hashlib.sha256(f"{manifest.models.get('target')} {asked}{sampled}".encode()).hexdigest()

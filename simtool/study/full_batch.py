"""What a study replays of a trace: its requests and outcomes, cut short or queued again to keep a batch full."""

from __future__ import annotations

import polars as pl

from simtool.errors import TraceError, UsageError
from simtool.trace.queue_order import queue_order
from simtool.trace.trace import Trace

_FEW_WAVES = 1.5
_MIN_REQUESTS = 8  # at concurrency 1 a request or two would say more about the prompt than about the placement


def workload(trace: Trace, concurrency: int, waves: int | None) -> Trace:
    """Return the trace as one concurrency needs it; steps and events are left behind, a replay makes its own.

    waves: requests that each slot serves. The first requests of the queue are taken, eight at least, and all of them
    again when the trace has too few; a copy emits what the original did. None: the whole trace, once.
    Raises UsageError when the whole trace cannot fill the batch, or a number is below 1.
    """
    check_decodes(trace)
    queue = queue_order(trace)
    for option, value in (("--concurrency", concurrency), ("--waves", waves)):
        if value is not None and value < 1:
            raise UsageError(f"{option} is {value}; expected 1 or more")
    if waves is None and concurrency > queue.height:
        raise UsageError(
            f"--concurrency {concurrency}: {trace.path} holds {queue.height} finished requests, so that many never "
            "run at once; --waves 2 queues them again until each slot serves two, or record more prompts"
        )
    wanted = queue.height if waves is None else max(waves * concurrency, _MIN_REQUESTS)
    if wanted == queue.height == trace.height("requests") and trace.manifest.complete:
        return trace.with_table("requests", queue)  # rows and outcomes are all of these, and stay where they are
    copies = range(-(-wanted // queue.height))
    period_ns = _whole(queue["admitted_ns"].max()) + 1
    requests = pl.concat(
        _named(queue, copy).with_columns(pl.col("arrival_ns", "admitted_ns") + copy * period_ns) for copy in copies
    ).head(wanted)
    kept = requests.select("request_id")
    tables = {
        name: pl.concat(_named(trace.table(name), copy) for copy in copies).join(
            kept, on="request_id", how="semi", maintain_order="left"
        )
        for name in ("rows", "outcomes")
    }
    return Trace(trace.path, trace.manifest, {"requests": requests, **tables})


def one_wave(source: Trace, concurrency: int) -> str:
    """Say that slots serve hardly a request each, so a full batch is of first steps only; empty where they do more.

    There a lag reads no confidence yet in many steps, and loses more than on a server that is kept busy.
    """
    waves = source.table("requests").height / concurrency
    if waves >= _FEW_WAVES:
        return ""
    return (
        f"each slot serves {waves:.1f} requests, so the full batch is that of their first steps, where a lag has the "
        "least to read: --waves 2 or more keeps it full"
    )


def check_decodes(trace: Trace) -> None:
    """Raise TraceError when no request goes beyond its first token, which a prefill gives: then no step decodes."""
    tokens = trace.table("requests")["output_tokens"]
    if tokens.is_empty() or not (tokens > 1).any():
        raise TraceError(
            f"{trace.path}: no request emits more than one token, so there is no decode step to study; record with "
            "--max-new-tokens of 2 or more"
        )


def _named(table: pl.DataFrame, copy: int) -> pl.DataFrame:
    return table.with_columns(pl.col("request_id") + f"#{copy + 1}") if copy else table


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0

"""Is every admission the first at which it could be? The scheduler takes whoever has come and fits, in every step."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from simtool.trace.checks.finding import Finding, Rule, apply
from simtool.trace.trace import Trace


def check_admissions(trace: Trace) -> Iterator[Finding]:
    """Yield requests that had arrived, had a free slot and KV blocks, and yet were left waiting for a step.

    Only of simtool's own scheduler, and of whole traces: where requests are missing, slots seem free that are not.
    """
    if trace.manifest.origin == "imported" or not trace.manifest.complete:
        return
    if trace.table("steps").filter(pl.col("end_ns") <= pl.col("start_ns")).height:
        return  # steps that share an instant, as only made-up costs give them: times do not tell them apart
    fits = pl.lit(True) if trace.manifest.run.kv_blocks is None else _blocks_fit(trace.manifest.run.kv_blocks)
    had_slot = pl.col("queued_before") - pl.col("finished_before") < trace.manifest.concurrency
    rule = Rule(
        "had arrived and fitted into a free slot a step before it was admitted",
        (pl.col("arrival_ns") <= pl.col("checked_ns")) & pl.col("is_first") & had_slot & fits,
        ("arrival_ns", "admitted_ns", "checked_ns"),
    )
    queue = _queue(trace)
    yield from apply([rule], queue, "requests", ("request_id",))
    prefills = trace.table("steps").sort("start_ns", "end_ns").with_columns(at=pl.int_range(pl.len()))
    begun = queue.group_by("step").agg(requests=pl.len())
    view = prefills.filter(pl.col("kind") == "prefill").join(begun, left_on="at", right_on="step", how="left")
    began = pl.col("requests").fill_null(0)
    # of a request that the writer left without a first token nothing tells which prefill it was in
    all_told = trace.table("requests")["first_token_ns"].null_count() == 0
    wrong = pl.col("batch") != began if all_told else pl.col("batch") < began
    batch = Rule("batch is not the number of requests that it began", wrong, ("batch", "requests"))
    yield from apply([batch], view.sort("step"), "steps", ("step",))


def _blocks_fit(kv_blocks: int) -> pl.Expr:
    return pl.col("blocks_before") - pl.col("blocks_given_back") + pl.col("blocks") <= kv_blocks


def _queue(trace: Trace) -> pl.DataFrame:
    """Requests in the order they were queued, each as things stood in the step before its prefill.

    checked_ns: when the step before that one had ended, after which the scheduler looked. is_first: whether all that
    were queued before it had been admitted by then. queued_before, finished_before: requests, at that time.
    """
    size, lookahead = trace.manifest.run.block_size or 16, trace.manifest.sl + 1
    longest = pl.max_horizontal("max_new_tokens", "output_tokens")
    asked = trace.table("requests").drop_nulls("first_token_ns").sort("arrival_ns", "admitted_ns", "request_id")
    queue = asked.with_columns(
        step=_prefill_of(trace, asked),
        queued_before=pl.int_range(pl.len()),
        blocks=(pl.col("prompt_tokens").cast(pl.Int64) + longest + lookahead + size - 1) // size,
    )
    queue = queue.with_columns(blocks_before=pl.col("blocks").cum_sum() - pl.col("blocks"))
    ends = trace.table("steps").sort("start_ns", "end_ns").select(at=pl.int_range(pl.len()) + 2, checked_ns="end_ns")
    queue = queue.join(ends, left_on="step", right_on="at", how="left").with_columns(
        is_first=pl.col("step").cum_max().shift(fill_value=-1) < pl.col("step")
    )
    ended = queue.drop_nulls("finished_ns").sort("finished_ns")
    count, blocks = pl.int_range(pl.len()) + 1, pl.col("blocks").cum_sum()
    gone = ended.select("finished_ns", finished_before=count, blocks_given_back=blocks)
    found = queue.sort("checked_ns").drop("finished_ns").join_asof(gone, left_on="checked_ns", right_on="finished_ns")
    return found.with_columns(pl.col("finished_before", "blocks_given_back").fill_null(0)).sort("request_id")


def _prefill_of(trace: Trace, asked: pl.DataFrame) -> pl.Series:
    """The place among all steps, in order of time, of the prefill that gave each request its first token."""
    steps = trace.table("steps").sort("start_ns", "end_ns").with_columns(at=pl.int_range(pl.len()))
    prefills = steps.filter(pl.col("kind") == "prefill").select(first_token_ns="start_ns", step="at")
    order = asked.with_columns(row=pl.int_range(pl.len())).sort("first_token_ns")
    return order.join_asof(prefills, on="first_token_ns", allow_exact_matches=False).sort("row")["step"]

"""Ops of another engine's step in our words: a prefill step's own names, and one op where it comes in pieces.

An engine runs the same code on prompts and on drafts, so its prefill steps name the ops of a decode step: what builds
is build_prefill, what launches before the tokens are read is launch_prefill, what comes after is write_context.
"""

from __future__ import annotations

import polars as pl

from simtool.step.ops import CATALOGUE
from simtool.step.placement import PREFILL_ORDER
from simtool.trace.importers.step_log.works import IS_HOST, WORK_NAMES, work_of

_PREFILL_NAMES = [op.name for op in PREFILL_ORDER]


def tidy_ops(events: pl.DataFrame, prefills: pl.Series) -> pl.DataFrame:
    """Return the events with those names, and with neighbours of one name made one op; prefills: steps.

    Events that are no ops of the catalogue stay as they are.
    """
    is_op = IS_HOST & pl.col("op").is_in(list(CATALOGUE))
    in_prefill = pl.col("step").is_in(prefills.implode())
    host = events.filter(is_op).sort("step", "start_ns", "end_ns").with_columns(op=_named(in_prefill))
    changed = (pl.col("op") != pl.col("op").shift()) | (pl.col("step") != pl.col("step").shift())
    host = host.with_columns(piece=changed.fill_null(True).cum_sum())
    flows = host.select("flow", new_flow=pl.col("flow").first().over("piece"), host_op="op")
    whole = host.group_by("piece", maintain_order=True).agg(
        pl.exclude("end_ns", "wait_start_ns", "wait_end_ns", "bytes", "piece").first(),
        pl.col("end_ns", "wait_end_ns").max(),
        pl.col("wait_start_ns").min(),
        pl.col("bytes").sum(),
    )
    rest = events.filter(~is_op).join(flows, on="flow", how="left", maintain_order="left")
    renamed = ~IS_HOST & in_prefill & pl.col("op").is_in(WORK_NAMES)
    rest = rest.with_columns(
        flow=pl.coalesce("new_flow", "flow"),
        op=pl.when(renamed).then(pl.coalesce(work_of("host_op"), "op")).otherwise("op"),
    )
    return pl.concat([whole.select(events.columns), rest.select(events.columns)])


def _named(in_prefill: pl.Expr) -> pl.Expr:
    """The op's name; in a prefill step one that prefill steps have. Expects rows in order of step and time."""
    read = (pl.col("op") == "read_tokens").cum_sum().over("step") > 0
    builds = pl.col("op").str.starts_with("build_")
    before = pl.when(builds).then(pl.lit("build_prefill")).otherwise(pl.lit("launch_prefill"))
    other = pl.when(read).then(pl.lit("write_context")).otherwise(before)
    foreign = in_prefill & ~pl.col("op").is_in(_PREFILL_NAMES)
    return pl.when(foreign).then(other).otherwise("op")

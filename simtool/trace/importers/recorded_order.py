"""The order in which a trace's steps ran: its own placement, or of an import the one that its ops tell."""

from __future__ import annotations

import polars as pl

from simtool.step.ops import Lane
from simtool.step.placement import BUILT_IN, VLLM_ARMS, Placement
from simtool.trace.trace import Trace

_DECIDES = ("decide", "decide_budget")
#: Share of its drafts that a run verifies which prunes nothing: some are cut where an output ends.
_WHOLE = 0.98


def recorded_order(trace: Trace) -> Placement | None:
    """Return the placement that ran; None where an import does not tell, or decided in an order that has no name.

    An import that decides nothing drafts before the verify (static), or behind it for the step after (vllm/static).
    """
    if trace.manifest.placement is not None:
        return trace.placement
    decodes = trace.table("steps").filter(pl.col("kind") == "decode").select("step")
    host = trace.table("events").filter(pl.col("lane") == Lane.HOST.value).join(decodes, on="step", how="semi")
    if not host.filter(pl.col("op").is_in(_DECIDES)).is_empty():
        return None
    begins = {
        op: host.filter(pl.col("op") == op).group_by("step").agg(pl.col("start_ns").min().alias(op))
        for op in ("launch_draft", "launch_verify")
    }
    both = begins["launch_draft"].join(begins["launch_verify"], on="step")
    if both.is_empty():
        return None
    behind = (both["launch_draft"] > both["launch_verify"]).sum() * 2 > both.height
    return VLLM_ARMS["vllm/static"] if behind else BUILT_IN["static"]


def prunes(source: Trace) -> bool:
    """Return whether a run verified less than it drafted, but for what an output's end cuts."""
    offered = source.columns("rows", "prefix_len")["prefix_len"].to_numpy()
    return bool(len(offered)) and float(offered.mean()) < _WHOLE * source.manifest.sl

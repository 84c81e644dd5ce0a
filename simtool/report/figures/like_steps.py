"""Which steps to show beside each other: like ones, near each arm's mean, and of one number where arms share them."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from simtool.analysis.comparison.arms import Arm
from simtool.analysis.critical_path.spans import typical_steps
from simtool.trace.trace import Trace


def representative_step(trace: Trace) -> int | None:
    """Return the typical step of median length, among those that prune if most do, else among those that do not."""
    usual = _usual(trace)
    if usual.is_empty():
        return None
    ordered = usual.sort("length_ns", "step")
    return int(ordered["step"][ordered.height // 2])


def like_steps(arms: Sequence[Arm], count: int) -> list[dict[str, int]]:
    """Return up to `count` choices of a step an arm (by label), the one nearest to the mean first.

    A choice is one step number in every arm whose usual steps hold it: greedy runs of the same requests are then at
    about the same place of their work. Without a number that all share: each arm's median step, one choice.
    """
    usual = {arm.label: _usual(arm.traces[0]) for arm in arms}
    usual = {label: steps for label, steps in usual.items() if not steps.is_empty()}
    if not usual:
        return []
    away = pl.concat(
        steps.select("step", away=(pl.col("length_ns") / pl.col("length_ns").mean() - 1).abs())
        for steps in usual.values()
    )
    shared = away.group_by("step").agg(pl.col("away").sum(), arms=pl.len()).filter(pl.col("arms") == len(usual))
    if shared.is_empty():
        medians = {arm.label: representative_step(arm.traces[0]) for arm in arms}
        return [{label: step for label, step in medians.items() if step is not None}]
    nearest = shared.sort("away", "step").head(count)["step"].to_list()
    return [dict.fromkeys(usual, step) for step in nearest]


def _usual(trace: Trace) -> pl.DataFrame:
    """Typical steps that have events and are of the more frequent kind, with length_ns."""
    full = typical_steps(trace).with_columns(length_ns=pl.col("end_ns") - pl.col("start_ns"))
    if full.is_empty():
        return full
    prunes = 2 * int(full["pruned"].sum()) >= full.height
    usual = full.filter(pl.col("pruned") == prunes)
    return usual.join(trace.columns("events", "step").unique(), on="step", how="semi", maintain_order="left")

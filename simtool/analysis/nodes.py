"""The pieces of many steps as arrays: host segments and device work, in an order in which every wait looks back.

A blocking host op is two segments, up to its wait and after it. Device work that is still running when the next step
begins appears in that step too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from simtool.step.ops import Lane

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


NOBODY = ""  # the op of a gap that no piece of work stands before


@dataclass(frozen=True)
class Nodes:
    """All arrays: [nodes], sorted by step, start, flow; at a tie a launch, its work, the segment that waited for it.

    step: place in the steps asked for. op, lane: places in op_names, lane_names, which are in order and also name
    what nobody did (op "", lane host). flow: numbers (step, flow) pairs.
    resumed: the host segment after a wait. start_ns, end_ns: ns.
    """

    step: Ints
    op: Ints
    lane: Ints
    flow: Ints
    start_ns: Ints
    end_ns: Ints
    on_host: Flags
    resumed: Flags
    op_names: tuple[str, ...]
    lane_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.step)


def make_nodes(steps: pl.DataFrame, events: pl.DataFrame) -> Nodes:
    """Make the nodes of the given steps (sorted by step) from an `events` table."""
    places = steps.select("step", place=pl.int_range(pl.len(), dtype=pl.Int64))
    mine = events.join(places, on="step", maintain_order="left")
    ops = sorted({*mine["op"].unique().to_list(), NOBODY})
    lanes = sorted({*mine["lane"].unique().to_list(), Lane.HOST.value})
    table = mine.select(
        step="place",
        op=_place_in(ops, "op"),
        lane=_place_in(lanes, "lane"),
        flow="flow",
        start_ns="start_ns",
        end_ns=pl.coalesce("wait_start_ns", "end_ns"),
        on_host=pl.col("lane") == Lane.HOST.value,
        resumed=pl.lit(False),
        wait_end_ns="wait_end_ns",
        last_ns="end_ns",
    )
    after = table.filter(pl.col("wait_end_ns").is_not_null()).with_columns(
        start_ns="wait_end_ns", end_ns="last_ns", resumed=pl.lit(True)
    )
    return _sorted(pl.concat([table, after, *_carried(table, steps["start_ns"])]), ops, lanes)


def _place_in(names: list[str], column: str) -> pl.Expr:
    return pl.col(column).cast(pl.Enum(names)).to_physical().cast(pl.Int64)


def _carried(table: pl.DataFrame, starts_ns: pl.Series) -> list[pl.DataFrame]:
    """Device work once more for every later step that it still ran in."""
    next_start = pl.col("step").replace_strict(
        list(range(len(starts_ns) - 1)), starts_ns[1:], default=None, return_dtype=pl.Int64
    )
    found = []
    running = table.filter(~pl.col("on_host"))
    while not (running := running.filter(pl.col("end_ns") > next_start).with_columns(pl.col("step") + 1)).is_empty():
        found.append(running)
    return found


def _sorted(table: pl.DataFrame, ops: list[str], lanes: list[str]) -> Nodes:
    rank = pl.when("resumed").then(2).when("on_host").then(0).otherwise(1)
    table = table.sort("step", "start_ns", "flow", rank, maintain_order=True)
    flow = table.select(pl.struct("step", "flow").rank("dense").cast(pl.Int64)).to_series().to_numpy()
    columns = {name: table[name].to_numpy() for name in ("step", "op", "lane", "start_ns", "on_host", "resumed")}
    end_ns = np.maximum(columns["start_ns"], table["end_ns"].to_numpy())
    return Nodes(**columns, flow=flow, end_ns=end_ns, op_names=tuple(ops), lane_names=tuple(lanes))

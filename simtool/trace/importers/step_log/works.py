"""Which device work is whose: the catalogue's word on what an op launches, as expressions over columns."""

from __future__ import annotations

import polars as pl

from simtool.step.ops import CATALOGUE, Lane

IS_HOST = pl.col("lane") == Lane.HOST.value
WORK_NAMES = sorted({work.name for op in CATALOGUE.values() for work in op.works})
_LANE_OF = {work.name: work.lane.value for op in CATALOGUE.values() for work in op.works}
_ON_LANE = {f"{op.name} {work.lane.value}": work.name for op in CATALOGUE.values() for work in op.works}
_LAST = {op.name: op.works[-1].name for op in CATALOGUE.values() if op.works}


def work_of(op: str) -> pl.Expr:
    """Return the work that the op in column `op` launches on the event's lane, else its last; null: it launches none.

    A stream may carry more than one lane's work: a copy on the compute stream is its op's copy all the same.
    """
    on_lane = pl.concat_str([op, "lane"], separator=" ").replace_strict(_ON_LANE, default=None, return_dtype=pl.String)
    return pl.coalesce(on_lane, pl.col(op).replace_strict(_LAST, default=None, return_dtype=pl.String))


def lane_of(work: str) -> pl.Expr:
    """Return the lane of the work in column `work`."""
    return pl.col(work).replace_strict(_LANE_OF, default=None, return_dtype=pl.String)

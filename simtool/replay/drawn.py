"""A trace of drawn requests: outcomes are told by who drew which recorded ones, and written out when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from simtool.trace.frames import sort_frame
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace

_SLICE_REQUESTS = 1024


@dataclass(frozen=True, kw_only=True)
class DrawnTrace(Trace):
    """recorded: where outcomes come from. draws: request_id, donor, first_anchor, anchors; see `Workload`."""

    recorded: Trace
    draws: pl.DataFrame

    def outcomes(self) -> Iterator[pl.DataFrame]:
        """Yield the outcomes a slice at a time, in the order of the table's key."""
        names = self.draws["request_id"].unique().sort()
        for first in range(0, len(names), _SLICE_REQUESTS):
            part = self.draws.filter(pl.col("request_id").is_in(names[first : first + _SLICE_REQUESTS].implode()))
            yield sort_frame(TABLES["outcomes"], self._moved(part))

    def _read(self, name: str) -> pl.DataFrame:
        if name != "outcomes":
            return super()._read(name)
        parts = [self._moved(part) for part in self.draws.iter_slices(_SLICE_REQUESTS)]
        return pl.concat(parts or [self._moved(self.draws)])

    def _moved(self, draws: pl.DataFrame) -> pl.DataFrame:
        """The donors' outcomes, visited and filled, each moved to the anchors of those who drew them."""
        prompts = self.recorded.table("requests").select("request_id", "prompt_tokens")
        known = self.recorded.table("outcomes").join(prompts, on="request_id").rename({"request_id": "donor"})
        known = known.with_columns(offset=pl.col("anchor_position") - pl.col("prompt_tokens"))
        moved = draws.join(known, on="donor", maintain_order="left_right")
        moved = moved.filter(pl.col("offset").is_between(0, pl.col("anchors") - 1))
        anchor = (pl.col("first_anchor") + pl.col("offset")).alias("anchor_position")
        return moved.with_columns(anchor).select([column.name for column in TABLES["outcomes"].columns])


def outcomes_in_order(trace: Trace) -> Iterator[pl.DataFrame]:
    """Yield a trace's outcomes in the order of the table's key; those of drawn requests a slice at a time."""
    if isinstance(trace, DrawnTrace):
        yield from trace.outcomes()
    else:
        yield sort_frame(TABLES["outcomes"], trace.table("outcomes"))

"""A trace of drawn requests: outcomes are told by who drew which recorded ones, and written out when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from simtool.errors import TraceError
from simtool.trace.frames import empty_frame, sort_frame
from simtool.trace.schema import TABLES
from simtool.trace.table_file import TableSource
from simtool.trace.trace import Trace

_SLICE_REQUESTS = 256


@dataclass(frozen=True, kw_only=True)
class DrawnTrace(Trace):
    """recorded: where outcomes come from. draws: request_id, donor, first_anchor, anchors; see `Workload`."""

    recorded: Trace
    draws: pl.DataFrame

    def _source(self, name: str) -> TableSource:
        return _DrawnOutcomes(self.recorded, self.draws) if name == "outcomes" else super()._source(name)


@dataclass(frozen=True)
class _DrawnOutcomes:
    """The donors' outcomes, visited and filled, each moved to the anchors of those who drew them."""

    recorded: Trace
    draws: pl.DataFrame

    @property
    def height(self) -> int:
        return sum(part.height for part in self.stretches())

    def whole(self) -> pl.DataFrame:
        return pl.concat([*self.stretches()] or [empty_frame(TABLES["outcomes"])])

    def columns(self, names: Sequence[str]) -> pl.DataFrame:
        return pl.concat([*self.stretches(names)] or [empty_frame(TABLES["outcomes"], names)])

    def of_steps(self, steps: Sequence[int]) -> pl.DataFrame:
        raise TraceError(f"outcomes of steps {list(steps)}: they belong to anchors, not to steps")

    def only_file(self) -> Path | None:
        return None

    def stretches(self, names: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        requests = self.draws["request_id"].unique().sort()
        for first in range(0, len(requests), _SLICE_REQUESTS):
            some = pl.col("request_id").is_in(requests[first : first + _SLICE_REQUESTS].implode())
            part = sort_frame(TABLES["outcomes"], self._moved(self.draws.filter(some)))
            if len(part):
                yield part if names is None else part.select(names)

    def _moved(self, draws: pl.DataFrame) -> pl.DataFrame:
        moved = draws.join(self._known, on="donor", maintain_order="left_right")
        moved = moved.filter(pl.col("offset").is_between(0, pl.col("anchors") - 1))
        anchor = (pl.col("first_anchor") + pl.col("offset")).alias("anchor_position")
        return moved.with_columns(anchor).select([column.name for column in TABLES["outcomes"].columns])

    @cached_property
    def _known(self) -> pl.DataFrame:
        """Recorded outcomes by donor and how far behind its prompt."""
        prompts = self.recorded.columns("requests", "request_id", "prompt_tokens")
        known = self.recorded.table("outcomes").join(prompts, on="request_id").rename({"request_id": "donor"})
        return known.with_columns(offset=pl.col("anchor_position") - pl.col("prompt_tokens"))

"""A trace's events as arrays of whole numbers, cut into blocks of whole steps small enough for a processor's cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from simtool.step.ops import Lane

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

NO_FLOW = -1
NOBODY = ""  # the op of a gap that no piece of work stands before
_BLOCK = 1 << 16  # pieces: half a megabyte an array


@dataclass(frozen=True)
class Names:
    """ops, lanes: what the numbers in arrays stand for: in order, with NOBODY and the host always there."""

    ops: tuple[str, ...]
    lanes: tuple[str, ...]

    @property
    def host(self) -> int:
        """The number of the host lane."""
        return self.lanes.index(Lane.HOST.value)

    @property
    def nobody(self) -> int:
        """The number of NOBODY, whose lane is the host's."""
        return self.ops.index(NOBODY)


@dataclass(frozen=True)
class Pieces:
    """The events of some steps in a row. Arrays: [pieces], sorted by step and flow.

    step: place in this block's steps. op, lane: places in `names`. times: ns; a host op that waited ran from start to
    paused, and from resumed to end; one that did not was paused at its end.
    track: which thread or stream of its lane, as a number. waits_for: the flow whose work a wait needs, or NO_FLOW.
    Device work still running when the next step begins appears in that step too.
    first_step: place of the block's first step in the steps asked for. starts_ns, ends_ns: [steps] the steps' own.
    """

    names: Names
    step: Ints
    op: Ints
    lane: Ints
    flow: Ints
    start_ns: Ints
    paused_ns: Ints
    resumed_ns: Ints
    end_ns: Ints
    waited: Flags
    track: Ints
    waits_for: Ints
    first_step: int
    starts_ns: Ints
    ends_ns: Ints

    def blocks(self, size: int = _BLOCK) -> Iterator[Pieces]:
        """Cut into blocks of whole steps, of at most `size` pieces unless a single step has more."""
        firsts = np.searchsorted(self.step, np.arange(len(self.starts_ns) + 1))
        if not len(self.starts_ns):
            yield self
        low = 0
        while low < len(self.starts_ns):
            high = max(low + 1, int(np.searchsorted(firsts, firsts[low] + size, "right")) - 1)
            yield self._steps(low, high, slice(firsts[low], firsts[high]))
            low = high

    def _steps(self, low: int, high: int, rows: slice) -> Pieces:
        return Pieces(
            names=self.names,
            step=self.step[rows] - low,
            **{name: getattr(self, name)[rows] for name in _COPIED},
            first_step=self.first_step + low,
            starts_ns=self.starts_ns[low:high],
            ends_ns=self.ends_ns[low:high],
        )


_READ = ("step", "op", "lane", "flow", "start_ns", "end_ns", "wait_start_ns", "wait_end_ns")
_LATER: dict[str, pl.DataType] = {"track": pl.String(), "waits_for": pl.Int64()}
_COPIED = ("op", "lane", "flow", "start_ns", "paused_ns", "resumed_ns", "end_ns", "waited", "track", "waits_for")


def make_pieces(steps: pl.DataFrame, events: pl.DataFrame) -> Pieces:
    """Take the pieces of the given steps (sorted by step) from an `events` table."""
    absent = [pl.lit(None, dtype).alias(name) for name, dtype in _LATER.items() if name not in events.columns]
    mine = events.with_columns(absent).select(*_READ, *_LATER).filter(pl.col("step").is_in(steps["step"].implode()))
    names = Names(_names(mine["op"], NOBODY), _names(mine["lane"], Lane.HOST.value))
    table = mine.select(
        op=_place_in(names.ops, "op"),
        lane=_place_in(names.lanes, "lane"),
        flow="flow",
        start_ns="start_ns",
        paused_ns=pl.coalesce("wait_start_ns", "end_ns"),
        resumed_ns=pl.coalesce("wait_end_ns", "end_ns"),
        end_ns="end_ns",
        waited=pl.col("wait_end_ns").is_not_null(),
        track=pl.col("track").fill_null("").rank("dense").cast(pl.Int64) - 1,
        waits_for=pl.col("waits_for").fill_null(NO_FLOW),
    )
    columns = {name: table[name].to_numpy() for name in _COPIED}
    starts_ns, ends_ns = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    step = np.searchsorted(steps["step"].to_numpy(), mine["step"].to_numpy())
    device = np.flatnonzero(columns["lane"] != names.host)
    carried, later = _carried(device, step, columns["paused_ns"], starts_ns)
    piece, step = np.append(np.arange(len(step)), carried), np.append(step, later)
    order = np.lexsort((columns["flow"][piece], step))  # a table in its own order is sorted already: quick
    columns = {name: column[piece[order]] for name, column in columns.items()}
    return Pieces(names, step[order], **columns, first_step=0, starts_ns=starts_ns, ends_ns=ends_ns)


def _names(column: pl.Series, always: str) -> tuple[str, ...]:
    return tuple(sorted({*column.unique().to_list(), always}))


def _place_in(names: tuple[str, ...], column: str) -> pl.Expr:
    return pl.col(column).cast(pl.Enum(names)).to_physical().cast(pl.Int64)


def _carried(device: Ints, step: Ints, end_ns: Ints, starts_ns: Ints) -> tuple[Ints, Ints]:
    """Return the device work that still ran in a later step, once for every such step, and those steps."""
    works, later = device, step[device]
    found = [(works[:0], later[:0])]
    while len(works):
        later = later + 1
        running = np.flatnonzero(later < len(starts_ns))
        running = running[end_ns[works[running]] > starts_ns[later[running]]]
        works, later = works[running], later[running]
        found.append((works, later))
    carried, steps = (np.concatenate(side) for side in zip(*found, strict=True))
    return carried, steps


def stable_order(numbers: Ints) -> Ints:
    """Return the order of small numbers, at least 0, ties as they stand: in few bits numpy sorts digit by digit."""
    return np.argsort(numbers.astype(np.min_scalar_type(numbers.max(initial=0))), kind="stable")

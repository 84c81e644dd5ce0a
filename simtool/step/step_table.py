"""What a step takes by its size, as other systems profile it at start: a part of the batch and a part of its tokens.

Tokens are target rows: the anchor of each sequence and the drafts offered. Milliseconds throughout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simtool.errors import UsageError
from simtool.files.reading import quoted
from simtool.step.graph_buckets import pick_bucket

Floats = NDArray[np.float64]
_MOST_PROBES = 65_536


@dataclass(frozen=True)
class StepTable:
    """step ms = part of the batch + part of the tokens, each known at ascending probes.

    batches, batch_ms: draft, sampling and what else does not depend on the offered drafts. tokens, token_ms: the rest.
    full_ms: by batch, how much longer (or shorter, below 0) a step is that cuts no prefix; empty: not told, so 0.
    """

    batches: tuple[int, ...]
    batch_ms: tuple[float, ...]
    tokens: tuple[int, ...]
    token_ms: tuple[float, ...]
    full_ms: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for what, sizes, times in (("batch", self.batches, self.batch_ms), ("token", self.tokens, self.token_ms)):
            _check(what, sizes, times)
        if self.full_ms and len(self.full_ms) != len(self.batches):
            raise UsageError(f"step table: {len(self.full_ms)} full-width times of {len(self.batches)} batches")

    def whole_ms(self, batch: int, drafts: int) -> float:
        """Return the step that verifies all of N drafts of each sequence."""
        line_ms = float(self.linear_ms(batch, np.array([batch * (drafts + 1)]))[0])
        if not self.full_ms:
            return line_ms
        return line_ms + float(np.interp(batch, self.batches, self.full_ms))

    def linear_ms(self, batch: int, tokens: NDArray[np.int64]) -> Floats:
        """Return the step at each number of tokens, in a line between probes and on along the last two."""
        return self._of_batch(batch) + _line(self.tokens, self.token_ms, tokens.astype(np.float64))

    def floor_ms(self, batch: int, tokens: NDArray[np.int64], probes: Sequence[int]) -> Floats:
        """Return the step at the largest of the probes that is not above each number of tokens, clamped at both ends.

        As a table of steps per second that is looked up at its last entry not above the batch.
        """
        at = np.searchsorted(np.array(probes), tokens, side="right") - 1
        below = np.array(probes)[np.clip(at, 0, len(probes) - 1)]
        return self.linear_ms(batch, below)

    def staircase_ms(self, batch: int, tokens: NDArray[np.int64], graph_rows: Sequence[int]) -> Floats:
        """Return the step where rows are padded up to the next graph, and in a line past the largest graph.

        The token part never falls: a running maximum over its probes comes first.
        """
        rising = np.maximum.accumulate(np.array(self.token_ms))
        padded = [pick_bucket(graph_rows, int(size)) or int(size) for size in tokens]
        return self._of_batch(batch) + _line(self.tokens, rising, np.array(padded, np.float64))

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {name: list(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> StepTable:
        """Build it from what `to_dict` returned; raises TypeError or UsageError on anything else."""
        return cls(**{name: tuple(values) for name, values in table.items()})

    def _of_batch(self, batch: int) -> float:
        return float(_line(self.batches, self.batch_ms, np.array([batch], np.float64))[0])


def _line(sizes: Sequence[int], times: Sequence[float] | Floats, at: Floats) -> Floats:
    """Interpolate, constant below the first size, and on along the last two above the last."""
    x, y = np.array(sizes, np.float64), np.asarray(times, np.float64)
    inside: Floats = np.interp(at, x, y)
    if len(x) == 1:
        return inside
    slope = (y[-1] - y[-2]) / (x[-1] - x[-2])
    beyond: Floats = inside + np.maximum(at - x[-1], 0.0) * max(float(slope), 0.0)
    return beyond


def _check(what: str, sizes: Sequence[int], times: Sequence[float]) -> None:
    whole = all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in sizes)
    if not whole or not 1 <= len(sizes) <= _MOST_PROBES or list(sizes) != sorted(set(sizes)):
        raise UsageError(f"step table: {what} sizes are {quoted(sizes)}; expected ascending whole numbers, 0 or more")
    if len(times) != len(sizes) or not all(isinstance(ms, int | float) and 0 <= ms < np.inf for ms in times):
        raise UsageError(f"step table: {what} times are {quoted(times)}; expected a time of 0 or more for each size")

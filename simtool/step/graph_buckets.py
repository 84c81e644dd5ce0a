"""Graph buckets: forwards are captured at a few sizes, and a batch is padded up to the next of them.

So the cost of a forward is a staircase in its rows, with a cliff past the largest bucket, where it runs eagerly.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from simtool.errors import UsageError
from simtool.files.reading import quoted

_MOST_BUCKETS = 4096
_SMALL = (1, 2, 4)
_STEPS = ((8, 256), (16, 1 << 20))


@dataclass(frozen=True)
class GraphBuckets:
    """What was captured, ascending. draft: sequences of a draft forward; target: rows of a target forward.

    rebinds: the host must bind the lengths of each replay to every captured attention op (an NPU graph).
    """

    draft: tuple[int, ...] = ()
    target: tuple[int, ...] = ()
    rebinds: bool = False

    def draft_sequences(self, batch: int) -> int:
        """Return the sequences that a draft forward of `batch` computes."""
        return pick_bucket(self.draft, batch) or batch

    def to_dict(self) -> dict[str, object]:
        """Return the form that a manifest and a profile store."""
        return {"draft": list(self.draft), "target": list(self.target), "rebinds": self.rebinds}

    @classmethod
    def from_dict(cls, table: object) -> GraphBuckets:
        """Read what `to_dict` wrote; None, which tells of no graphs, is none. Raises UsageError for anything else."""
        if table is None:
            return cls()
        rebinds = table.get("rebinds", False) if isinstance(table, dict) else None
        if not isinstance(table, dict) or not isinstance(rebinds, bool):
            raise UsageError(f"graphs is {quoted(table)}; expected a table of draft, target and rebinds, or none")
        draft, target = (_sizes(name, table.get(name, [])) for name in ("draft", "target"))
        return cls(draft, target, rebinds)


def _sizes(name: str, values: object) -> tuple[int, ...]:
    ascending = isinstance(values, list) and all(type(value) is int and value > 0 for value in values)
    if not isinstance(values, list) or not ascending or values != sorted(values) or len(values) > _MOST_BUCKETS:
        raise UsageError(f"graphs.{name} is {quoted(values)}; expected ascending sizes, whole numbers above 0")
    return tuple(values)


def pick_bucket(buckets: Sequence[int], size: int) -> int | None:
    """Return the smallest bucket that holds `size`; None past the largest: that forward runs eagerly."""
    place = bisect_left(buckets, size)
    return buckets[place] if place < len(buckets) else None


def make_buckets(largest: int) -> tuple[int, ...]:
    """Return 1, 2, 4, multiples of 8 up to 256, then of 16, up to `largest`, which is always one of them; 0: none."""
    if largest < 1:
        return ()
    grid = list(_SMALL)
    for stride, end in _STEPS:
        grid.extend(range(grid[-1] // stride * stride + stride, min(end, largest) + 1, stride))
    return (*(size for size in grid if size < largest), largest)

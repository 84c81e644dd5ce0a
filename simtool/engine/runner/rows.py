"""The inputs of one decode forward, in the one form that every attention backend and every graph takes."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class BatchRows:
    """G sequences of w rows each, R = G x w: validate rows are sequences of one row, draft blocks of w.

    ids, positions, mapping: [R], the last the flat cache index of each new key. tables: [G, M]. lengths: [G], the keys
    that each row of a sequence reads. host_tables, host_lengths: the same in host memory, where reading never syncs.
    """

    ids: Tensor
    positions: Tensor
    mapping: Tensor
    tables: Tensor
    lengths: Tensor
    host_tables: Tensor
    host_lengths: Tensor

    @property
    def sequences(self) -> int:
        """G."""
        return len(self.tables)

    @property
    def width(self) -> int:
        """w."""
        return len(self.ids) // len(self.tables)

    @property
    def longest(self) -> int:
        """The longest of the lengths."""
        return int(self.host_lengths.max())

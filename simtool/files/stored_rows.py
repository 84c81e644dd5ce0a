"""Rows of numbers that are read now and then: many lie in a file without a name, and take no memory in between."""

from __future__ import annotations

from tempfile import TemporaryFile
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

#: Numbers that are in memory, at most: 16 megabytes.
_MOST_NEAR = 1 << 22


class StoredRows:
    """Room for so many rows of so many numbers, filled one after another. The file goes with it.

    Raises OSError as a disk does.
    """

    def __init__(self, rows: int, width: int) -> None:
        far = rows * width > _MOST_NEAR
        self._file = TemporaryFile(prefix="simtool-") if far else None  # noqa: SIM115  # open as long as this lives
        if self._file is not None:
            finalize(self, self._file.close)
        self._near = np.empty((0 if far else rows, width), np.float32)
        self._filled = 0

    def add(self, rows: NDArray[np.float32]) -> None:
        """Add rows behind those that are there: [rows, width]."""
        if self._file is None:
            self._near[self._filled : self._filled + len(rows)] = rows
        else:
            self._file.write(np.ascontiguousarray(rows, np.float32).data)
        self._filled += len(rows)

    def take(self, rows: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return some rows, [rows, width]. However far apart they lie, little of the file is in memory at a time."""
        width = self._near.shape[1]
        if self._file is None:
            return self._near.take(rows, axis=0)
        found, some = np.empty((len(rows), width), np.float32), max(_MOST_NEAR // width, 1)
        for first in range(0, self._filled, some):
            here = np.flatnonzero((rows >= first) & (rows < first + some))
            if len(here):
                found[here] = self._mapped(first, min(some, self._filled - first)).take(rows[here] - first, axis=0)
        return found

    def all(self) -> NDArray[np.float32]:
        """Return the rows that are there: [rows, width]."""
        if self._file is None or not self._filled:  # of no rows there is nothing to map
            return self._near[: self._filled]
        return self._mapped(0, self._filled)

    def _mapped(self, first: int, rows: int) -> NDArray[np.float32]:
        assert self._file is not None, "rows that are near are not mapped"
        self._file.flush()
        width = self._near.shape[1]
        begin = first * width * self._near.itemsize
        return np.memmap(self._file, np.float32, "r", begin, (rows, width)).view(np.ndarray)

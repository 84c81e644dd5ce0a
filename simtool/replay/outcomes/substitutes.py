"""Stand-ins for outcomes that a trace lacks: near anchors of the same request.

Where nothing was drafted at an anchor, the nearest anchor's outcome; where the confidence is known but not the match
run, the match run of the near anchor whose confidence is most like it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_NEIGHBOURS = 8


@dataclass(frozen=True)
class Known:
    """Outcomes of one request whose match run is known, by anchor: each [known]."""

    anchor: NDArray[np.int64]
    block: NDArray[np.int32]
    match_run: NDArray[np.int16]

    def nearest(self, anchors: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return up to 8 of the known for each anchor, nearest first and the lower of two as near: [anchors, 8].

        The second array tells which of them are there: a request may know fewer.
        """
        middle = np.searchsorted(self.anchor, anchors)
        places = middle[:, None] + np.arange(-_NEIGHBOURS, _NEIGHBOURS)
        there = (places >= 0) & (places < len(self.anchor))
        places = np.clip(places, 0, len(self.anchor) - 1)
        distance = np.where(there, np.abs(self.anchor[places] - anchors[:, None]), np.iinfo(np.int64).max)
        order = np.argsort(distance, axis=1, kind="stable")[:, :_NEIGHBOURS]
        return np.take_along_axis(places, order, 1), np.take_along_axis(there, order, 1)


def stand_ins(
    known: Known, anchors: NDArray[np.int64], own: NDArray[np.int32], drafted: NDArray[np.bool_], confidence: _Reals
) -> tuple[NDArray[np.int32], NDArray[np.int16]]:
    """Return the block and the match run that stand in at each anchor: [anchors] each.

    own: the block drafted there, where `drafted` says that there is one. confidence: [blocks, N].
    """
    near, there = known.nearest(anchors)
    apart = np.zeros(near.shape)
    for draft in range(confidence.shape[1]):  # one after the other: the sum's order is part of the result
        column = confidence[:, draft]
        apart += (column[known.block[near]].astype(np.float64) - column[own].astype(np.float64)[:, None]) ** 2
    apart[~there | np.isnan(apart)] = np.inf
    alike = np.where(drafted, np.argmin(apart, axis=1), 0)
    chosen = near[np.arange(len(anchors)), alike]
    return np.where(drafted, own, known.block[chosen]).astype(np.int32), known.match_run[chosen]


_Reals = NDArray[np.float32]

"""Graphs for a device that has none: a replay computes the forward again from the rows that were captured.

It keeps what makes graphs treacherous. A replay sees only the tensors that it was captured with, its outputs are
overwritten by the next replay, and host lengths stay what they were until they are rebound.
"""

from __future__ import annotations

from functools import partial

import torch

from simtool.engine.runner.graphs import Forward, Graph, Outputs
from simtool.engine.runner.rows import BatchRows


class RecomputingGraph:
    """One captured forward. bound: the lengths of each rebind."""

    def __init__(self, forward: Forward, rows: BatchRows, outputs: Outputs) -> None:
        self._forward, self._rows, self._outputs = forward, rows, outputs
        self.replays = 0
        self.bound: list[list[int]] = []

    def replay(self) -> None:
        self.replays += 1
        for output, new in zip(self._outputs, self._forward(), strict=True):
            output.copy_(new)

    def rebind(self, lengths: list[int]) -> None:
        self.bound.append(lengths)
        self._rows.host_lengths.copy_(torch.tensor(lengths))


class RecomputingCapture:
    """Captures by keeping the forward. graphs: every graph, in the order of their capture."""

    def __init__(self, *, rebinds: bool = False) -> None:
        self.rebinds = rebinds
        self.graphs: list[RecomputingGraph] = []

    def __call__(self, forward: Forward) -> tuple[Graph, Outputs]:
        assert isinstance(forward, partial)
        (rows,) = forward.args
        outputs = tuple(torch.empty_like(output) for output in forward())
        self.graphs.append(RecomputingGraph(forward, rows, outputs))
        return self.graphs[-1], outputs

"""Decode forwards as captured graphs, one a bucket: pad the rows up, replay, keep the first rows of the outputs.

Padding rows write to spare pages that no sequence owns, each to a place of its own, and read one key of them; what
they compute is cut off. A batch past the largest bucket runs eagerly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from simtool.engine.runner.rows import BatchRows
from simtool.errors import DeviceError
from simtool.step.graph_buckets import pick_bucket

Outputs = tuple[Tensor, ...]
Forward = Callable[[], Outputs]


class Graph(Protocol):
    """Captured device work that can be replayed."""

    def replay(self) -> None:
        """Enqueue it on the current stream."""

    def rebind(self, lengths: list[int]) -> None:
        """Bind these host lengths to every captured attention op, for the next replay."""


class Capture(Protocol):
    """Runs a forward and captures it: the graph, and the tensors that each replay fills.

    rebinds: whether the host binds the lengths of each replay.
    """

    rebinds: bool

    def __call__(self, forward: Forward) -> tuple[Graph, Outputs]:
        """Capture."""


@dataclass(frozen=True)
class Spare:
    """Where padding rows write: from the flat cache index `first` on, room for a whole bucket. block: the table entry
    of the first of its pages.
    """

    first: int
    block: int

    def places(self, count: int, like: Tensor) -> Tensor:
        """Flat cache indices for `count` padding rows, with the device and dtype of `like`."""
        return torch.arange(self.first, self.first + count, device=like.device, dtype=like.dtype)


@dataclass(frozen=True)
class _Captured:
    """One bucket: the rows that its graph reads, the graph, and what it writes."""

    rows: BatchRows
    graph: Graph
    outputs: Outputs


class BucketedForward:
    """One forward: a replayed graph where a bucket holds the batch, else `eager`."""

    def __init__(self, eager: Callable[[BatchRows], Outputs]) -> None:
        self.eager = eager
        self._buckets: tuple[int, ...] = ()
        self._captured: dict[int, _Captured] = {}

    def capture(
        self,
        forward: Callable[[BatchRows], Outputs],
        capture: Capture,
        buckets: Sequence[int],
        like: BatchRows,
        spare: Spare,
    ) -> None:
        """Capture `forward` at each bucket of sequences.

        like: rows of the width, table width, dtypes and device that every later batch has.
        """
        self._buckets, self._spare = tuple(buckets), spare
        for bucket in sorted(buckets, reverse=True):  # the largest first: smaller ones fit into its memory
            rows = padding(like, bucket, spare)
            graph, outputs = capture(partial(forward, rows))
            self._captured[bucket] = _Captured(rows, graph, outputs)

    def rebind(self, lengths: list[int]) -> None:
        """Bind the lengths of the next batch; one that will run eagerly needs none."""
        bucket = pick_bucket(self._buckets, len(lengths))
        if bucket is not None:
            self._captured[bucket].graph.rebind(lengths + [1] * (bucket - len(lengths)))

    def __call__(self, rows: BatchRows) -> Outputs:
        """Run the forward; outputs have one line a row of the batch."""
        bucket = pick_bucket(self._buckets, rows.sequences)
        if bucket is None:
            return self.eager(rows)
        captured = self._captured[bucket]
        pad_into(captured.rows, rows, self._spare)
        captured.graph.replay()
        return tuple(output[: len(rows.ids)] for output in captured.outputs)


def padding(like: BatchRows, sequences: int, spare: Spare) -> BatchRows:
    """Return rows of padding alone: `sequences` of them, shaped like `like`."""
    count = sequences * like.width
    host_tables = like.host_tables.new_full((sequences, like.tables.shape[1]), spare.block)
    return BatchRows(
        ids=like.ids.new_zeros(count),
        positions=like.positions.new_zeros(count),
        mapping=spare.places(count, like.mapping),
        tables=like.tables.new_full((sequences, like.tables.shape[1]), spare.block),
        lengths=like.lengths.new_ones(sequences),
        host_tables=host_tables,
        host_lengths=like.host_lengths.new_ones(sequences),
    )


def pad_into(static: BatchRows, rows: BatchRows, spare: Spare) -> None:
    """Overwrite a graph's rows with a batch and, behind it, with padding."""
    batch, count = rows.sequences, len(rows.ids)
    static.ids[:count] = rows.ids
    static.ids[count:] = 0
    static.positions[:count] = rows.positions
    static.positions[count:] = 0
    static.mapping[:count] = rows.mapping
    static.mapping[count:] = spare.places(len(static.mapping) - count, static.mapping)
    static.tables.fill_(spare.block)
    static.tables[:batch, : rows.tables.shape[1]] = rows.tables
    static.lengths[:batch] = rows.lengths
    static.lengths[batch:] = 1


class _DeviceGraph:
    """A torch.cuda.CUDAGraph or a torch.npu.NPUGraph.

    replayed: an event behind each replay, where lengths are rebound: a graph whose replay is under way must not change.
    """

    def __init__(self, graph: Any, replayed: torch.Event | None) -> None:
        self._graph, self._replayed = graph, replayed

    def replay(self) -> None:
        self._graph.replay()
        if self._replayed is not None:
            self._replayed.record()

    def rebind(self, lengths: list[int]) -> None:
        if self._replayed is None:
            raise DeviceError("this device's graphs read lengths on the device: the placement must not rebind them")
        if not self._replayed.query():  # a placement that has read its last step's tokens has waited for it already
            self._replayed.synchronize()
        # one entry is taken for every captured op; each is launched anew with it, which is what this costs
        self._graph.update(cpu_update_input=[{"actual_seq_lengths_kv": lengths}])


class DeviceCapture:
    """Captures on a cuda or npu device; its graphs share one memory pool, as no two of them run at once."""

    def __init__(self, device: torch.device) -> None:
        self.rebinds = device.type == "npu"
        self._device, self._module = device, torch.get_device_module(device)
        self._pool = self._module.graph_pool_handle()

    def __call__(self, forward: Forward) -> tuple[Graph, Outputs]:
        """Capture."""
        aside = torch.Stream(self._device)
        aside.wait_stream(torch.accelerator.current_stream(self._device))  # what it reads is still being filled there
        with aside:
            forward()  # first uses allocate and tune, which a capture must not see
        torch.accelerator.synchronize()
        graph = self._module.NPUGraph() if self.rebinds else self._module.CUDAGraph()
        options = {"auto_dispatch_capture": True} if self.rebinds else {}
        with self._module.graph(graph, pool=self._pool, **options):
            outputs = forward()
        return _DeviceGraph(graph, torch.Event(self._device) if self.rebinds else None), outputs

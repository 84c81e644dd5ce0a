"""The two decode forwards: a model, its keys and values, and the graphs that it was captured in.

Behind each cache lie spare pages for the padding of graphs. Captured or eager, a forward takes the same `BatchRows`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from simtool.engine.models.draft import DraftModel
from simtool.engine.models.layers import Attend
from simtool.engine.models.target import TargetModel
from simtool.engine.runner.attention import Kernels
from simtool.engine.runner.graphs import BucketedForward, Capture, Outputs, Spare
from simtool.engine.runner.kv_cache import KVCache
from simtool.engine.runner.rows import BatchRows
from simtool.engine.runner.spec import RunnerInfo, RunnerSpec


class TargetForward:
    """The target over validate rows. cache: its pages, which prompts are written to as well."""

    def __init__(
        self, model: TargetModel, taps: tuple[int, ...], kernels: Kernels, spec: RunnerSpec, info: RunnerInfo
    ) -> None:
        """`taps`: layers whose output the drafter reads."""
        self._model, self._taps, self._kernels = model, taps, kernels
        weight, config = model.embed_tokens.weight, model.config
        spares = -(-max(info.graphs.target, default=0) // spec.block_size)
        shape = (spec.kv_blocks + spares, spec.block_size, config.kv_heads, config.head_dim)
        self.cache = KVCache(config.layers, shape, weight.dtype, weight.device)
        self._spare = Spare(spec.kv_blocks * spec.block_size, spec.kv_blocks)
        self._pages = -(-info.max_tokens // spec.block_size)
        self._run = BucketedForward(lambda rows: self._forward(rows, kernels.rows(self.cache, rows)))
        self.rebind = self._run.rebind

    def __call__(self, rows: BatchRows) -> tuple[Tensor, Tensor]:
        """Logits [W, V] and taps [W, taps * H] of W validate rows."""
        logits, taps = self._run(rows)
        return logits, taps

    def eagerly(self, rows: BatchRows) -> tuple[Tensor, Tensor]:
        """The same without a graph."""
        logits, taps = self._run.eager(rows)
        return logits, taps

    def capture(self, capture: Capture, buckets: tuple[int, ...]) -> None:
        """Capture at each number of rows, over tables as wide as a whole context."""
        longest = self._pages * self.cache.block_size

        def static(rows: BatchRows) -> Outputs:
            return self._forward(rows, self._kernels.sequences(self.cache, rows, longest))

        like = _blank(1, self._pages, self._model.embed_tokens.weight.device)
        self._run.capture(static, capture, buckets, like, self._spare)

    def _forward(self, rows: BatchRows, attend: Attend) -> Outputs:
        hidden, taps = self._model(rows.ids, rows.positions, attend, self._taps)
        return self._model.logits(hidden), taps


class DraftForward:
    """The drafter over blocks. context: a run of pages for each slot."""

    def __init__(self, model: DraftModel, kernels: Kernels, spec: RunnerSpec, info: RunnerInfo) -> None:
        self._model, self._kernels, self._width = model, kernels, info.block_width
        weight, config = model.fc.weight, model.config
        # a block's own keys follow its context for the length of one draft, hence the extra rows
        room = info.max_tokens + info.block_width
        page = kernels.context_block
        self._pages = -(-room // page)
        self._slot_size = self._pages * page
        spares = -(-max(info.graphs.draft, default=0) * info.block_width // self._slot_size)
        shape = ((spec.slots + spares) * self._pages, page, config.kv_heads, config.head_dim)
        self.context = KVCache(config.layers, shape, weight.dtype, weight.device)
        self._spare = Spare(spec.slots * self._slot_size, spec.slots * self._pages)
        self._run = BucketedForward(
            lambda rows: self._forward(rows, kernels.sequences(self.context, rows, rows.longest))
        )
        self.rebind = self._run.rebind

    def __call__(self, rows: BatchRows) -> Tensor:
        """Hidden states [R, H] of R block rows."""
        (hidden,) = self._run(rows)
        return hidden

    def eagerly(self, rows: BatchRows) -> Tensor:
        """The same without a graph."""
        (hidden,) = self._run.eager(rows)
        return hidden

    def capture(self, capture: Capture, buckets: tuple[int, ...]) -> None:
        """Capture at each number of sequences, over whole contexts."""

        def static(rows: BatchRows) -> Outputs:
            return self._forward(rows, self._kernels.sequences(self.context, rows, self._slot_size))

        like = _blank(self._width, self._pages, self._model.fc.weight.device)
        self._run.capture(static, capture, buckets, like, self._spare)

    def places(self, slots: Tensor, positions: Tensor) -> Tensor:
        """Flat indices in the context of positions [A] in slots [A]."""
        return slots * self._slot_size + positions

    def tables(self, slots: Tensor) -> Tensor:
        """Block tables [B, pages] of slots [B]."""
        return slots[:, None] * self._pages + torch.arange(self._pages, device=slots.device)

    def _forward(self, rows: BatchRows, attend: Attend) -> Outputs:
        return (self._model(rows.ids, rows.positions, attend),)


def _blank(width: int, pages: int, device: torch.device) -> BatchRows:
    """One sequence of `width` rows with a table of `pages`, all zero."""
    row, table, length = (torch.zeros(shape, dtype=torch.int64) for shape in ((width,), (1, pages), (1,)))
    rows, tables, lengths = (host.to(device) for host in (row, table, length))
    return BatchRows(
        ids=rows, positions=rows, mapping=rows, tables=tables, lengths=lengths, host_tables=table, host_lengths=length
    )

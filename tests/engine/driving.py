"""A small host for device tests: builds the same lists as the engine's worker, for any prefix lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from simtool.engine.devices.protocol import Device, HostArray

BLOCK_SIZE = 4
OBSERVED = ("draft_tokens", "confidence", "draft_prob", "tokens", "accepted")


@dataclass
class Stream:
    """One sequence: its slot, KV blocks, random key, and prompt + output so far."""

    prompt: list[int]
    slot: int
    blocks: list[int]
    key: int = 0
    output: list[int] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)

    @property
    def anchor(self) -> int:
        return self.output[-1]

    @property
    def position(self) -> int:
        return len(self.prompt) + len(self.output) - 1

    def at(self, position: int) -> int:
        return self.blocks[position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE


def prefill(device: Device, streams: Sequence[Stream]) -> None:
    ids: list[int] = []
    positions: list[int] = []
    mapping: list[int] = []
    cu_rows = [0]
    for stream in streams:
        ids += stream.prompt
        positions += range(len(stream.prompt))
        mapping += [stream.at(position) for position in range(len(stream.prompt))]
        cu_rows.append(len(ids))
    arrays = {
        "prefill_ids": ids,
        "prefill_positions": positions,
        "prefill_slot_mapping": mapping,
        "prefill_cu_rows": cu_rows,
        "sample_keys": [stream.key for stream in streams],
    }
    event = device.upload("build_prefill", 0, arrays)
    event = device.launch("prefill", 0, (event,))
    tokens = device.download("read_tokens", 0, ("tokens", "accepted"), (event,)).wait()
    assert tokens["tokens"].shape == (len(streams), 1)
    assert tokens["accepted"].tolist() == [0] * len(streams)
    _write_context(device, streams, cu_rows, [len(stream.prompt) for stream in streams], from_start=True)
    for stream, (token,) in zip(streams, tokens["tokens"].tolist(), strict=True):
        stream.output.append(token)


def decode(
    device: Device, streams: Sequence[Stream], prefixes: Sequence[int] | None = None, more: tuple[str, ...] = ()
) -> None:
    """One step; prefixes None runs the dense form. Each stream's output and `steps` grow."""
    drafts, width = device.info.drafts, device.info.block_width
    query = {
        "query_ids": [id for s in streams for id in (s.anchor, *[device.info.mask_token_id] * (width - 1))],
        "query_positions": [p for s in streams for p in range(s.position, s.position + width)],
        "query_slots": [s.slot for s in streams],
        "context_lens": [s.position for s in streams],
        "sample_keys": [s.key for s in streams],
    }
    event = device.upload("build_query", 1, query)
    event = device.launch("draft", 1, (event,))
    event = device.launch("sample", 1, (event,))
    lengths = [drafts] * len(streams) if prefixes is None else list(prefixes)
    cu_rows = _validate(device, streams, lengths, "build_dense" if prefixes is None else "build_varlen")
    if prefixes is None:
        event = device.launch("fill_dense", 1, (event,))
    else:
        source = [i * drafts + k for i, p in enumerate(lengths) for k in range(p)]
        destination = [cu_rows[i] + 1 + k for i, p in enumerate(lengths) for k in range(p)]
        device.upload("fill_varlen_index", 1, {"fill_source": source, "fill_destination": destination})
        event = device.launch("fill_varlen", 1, (event,))
    device.launch("target", 1)
    event = device.launch("verify", 1)
    arrays = device.download("read_tokens", 1, (*OBSERVED, *more), (event,)).wait()
    accepted = arrays["accepted"].tolist()
    _write_context(device, streams, cu_rows, [a + 1 for a in accepted], from_start=False)
    for i, stream in enumerate(streams):
        step = {name: array[i].tolist() for name, array in arrays.items()}
        stream.steps.append({"start": stream.position, "prefix": lengths[i], **step})
        stream.output += step["tokens"][: accepted[i] + 1]


def generate(
    device: Device,
    streams: Sequence[Stream],
    tokens: int,
    prefixes: Callable[[int, Sequence[Stream]], Sequence[int] | None] = lambda step, streams: None,
) -> None:
    """Prefill, then decode until each stream has `tokens` output tokens; those that finish leave the batch."""
    prefill(device, streams)
    step = 0
    while running := [stream for stream in streams if len(stream.output) < tokens]:
        decode(device, running, prefixes(step, running))
        step += 1


def _validate(device: Device, streams: Sequence[Stream], lengths: Sequence[int], work: str) -> list[int]:
    rows = [(s, s.position + k, k) for s, p in zip(streams, lengths, strict=True) for k in range(p + 1)]
    most = max(len(s.blocks) for s in streams)
    cu_rows = [0]
    for length in lengths:
        cu_rows.append(cu_rows[-1] + length + 1)
    arrays: dict[str, HostArray] = {
        "validate_ids": [s.anchor if k == 0 else 0 for s, _, k in rows],
        "validate_positions": [position for _, position, _ in rows],
        "validate_slot_mapping": [s.at(position) for s, position, _ in rows],
        "validate_kv_lens": [position + 1 for _, position, _ in rows],
        "validate_block_tables": [s.blocks + [0] * (most - len(s.blocks)) for s, _, _ in rows],
        "validate_cu_rows": cu_rows,
    }
    device.upload(work, 1, arrays)
    return cu_rows


def _write_context(
    device: Device, streams: Sequence[Stream], cu_rows: Sequence[int], counts: Sequence[int], *, from_start: bool
) -> None:
    spans = [(s, cu_rows[i], 0 if from_start else s.position, counts[i]) for i, s in enumerate(streams)]
    arrays = {
        "context_rows": [row + k for _, row, _, count in spans for k in range(count)],
        "context_slots": [s.slot for s, _, _, count in spans for _ in range(count)],
        "context_positions": [start + k for _, _, start, count in spans for k in range(count)],
    }
    event = device.upload("write_context", 1, arrays)
    device.wait(device.launch("context_kv", 1, (event,)))

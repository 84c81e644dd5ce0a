"""The lines of a step log, as typed records. docs/step-log.md says the same in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

import msgspec

VERSION = 1

#: Where in a list a value stands: it would make every line's fault a reason of its own.
_INDEX = re.compile(r"\[\d+\]")
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
_Ns = Annotated[int, msgspec.Meta(ge=-(2**62), lt=2**62)]
_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
#: A host op of the step: name, start, end, and the span in which it waited for the device (null: it did not).
OpSpan = tuple[_Name, _Ns, _Ns, _Ns | None, _Ns | None]


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="header", forbid_unknown_fields=True):
    """Who wrote the log. unix_offset_ns: unix time minus the log's clock; null: the clock cannot be told from it."""

    version: int
    engine: _Name
    sl: Annotated[int, msgspec.Meta(ge=0, le=1024)]
    algorithm: str
    clock: _Name
    unix_offset_ns: _Ns | None = None
    engine_version: str = "not said"
    device: str = "cuda"
    device_name: str = "not said"
    models: dict[str, dict[str, str]] = {}
    block_width: Count | None = None
    concurrency: Count | None = None
    placement: str | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=1_000)] | None = None
    block_size: Count | None = None
    kv_blocks: Count | None = None
    controller: dict[str, object] = {}
    details: dict[str, object] = {}


class LoggedStep(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="step", forbid_unknown_fields=True):
    """One step of the running batch; lists hold one value a sequence, in the order of the batch.

    A prefill step gives request and prompt_tokens only. prefilled: requests whose prompt ended in a decode step.
    """

    step: Count
    start_ns: _Ns
    end_ns: _Ns
    request: list[_Name]
    kind: str = "decode"
    anchor: list[Count] = []
    prefix_len: list[Count] = []
    accepted: list[Count] = []
    emitted: list[Count] = []
    slot: list[Count] | None = None
    fresh: list[bool] | None = None
    confidence: list[list[_Share] | None] | None = None
    draft_prob: list[list[_Share] | None] | None = None
    draft_tokens: list[list[Count] | None] | None = None
    graph_bucket: Count | None = None
    prompt_tokens: list[Count] = []
    prefilled: list[_Name] = []
    ops: list[OpSpan] = []


class RequestLine(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="request", forbid_unknown_fields=True
):
    """What is known of a request so far; a later line of the same request adds to it."""

    request: _Name
    arrival_ns: _Ns | None = None
    admitted_ns: _Ns | None = None
    first_token_ns: _Ns | None = None
    finished_ns: _Ns | None = None
    finish_reason: str | None = None
    prompt_tokens: Count | None = None
    output_tokens: Count | None = None
    max_new_tokens: Count | None = None
    kind: str | None = None
    prompt_ids: list[Count] | None = None
    output_ids: list[Count] | None = None


Line = Header | LoggedStep | RequestLine
_PER_SEQUENCE = ("anchor", "prefix_len", "accepted", "emitted")
_OPTIONAL = ("slot", "fresh", "confidence", "draft_prob", "draft_tokens")


def without_places(error: Exception) -> str:
    """Say what a value ought to have been, the same for every place in a list."""
    return _INDEX.sub("[...]", str(error))


def fault(step: LoggedStep, sl: int) -> str | None:
    """Return what is wrong with a step line beyond the types of its values, or None."""
    return next(_faults(step, sl), None)


def _faults(step: LoggedStep, sl: int) -> Iterator[str]:
    count = len(step.request)
    if step.kind not in ("prefill", "decode"):
        yield f"kind is {step.kind!r}, neither prefill nor decode"
    if not count:
        yield "a step of no sequence"
    if len(set(step.request)) < count:
        yield "a request is in the step twice"
    if step.end_ns < step.start_ns:
        yield "ends before it starts"
    needed = ("prompt_tokens",) if step.kind == "prefill" else _PER_SEQUENCE
    for name in (*needed, *(name for name in _OPTIONAL if getattr(step, name) is not None)):
        if len(getattr(step, name)) != count:
            yield f"{name} does not hold one value a sequence"
    if step.slot is not None and len(set(step.slot)) < count:
        yield "two sequences in one slot"
    if step.kind == "decode":
        yield from _faults_of_counts(step, sl)
    yield from _faults_of_ops(step)


def _faults_of_counts(step: LoggedStep, sl: int) -> Iterator[str]:
    for prefix_len, accepted, emitted in zip(step.prefix_len, step.accepted, step.emitted, strict=True):
        if prefix_len > sl:
            yield f"prefix_len is above sl, {sl}"
        if accepted > prefix_len:
            yield "accepted is above prefix_len"
        if not 1 <= emitted <= accepted + 1:
            yield "emitted is outside 1 to accepted + 1"
    for name in ("confidence", "draft_prob", "draft_tokens"):
        if any(block is not None and len(block) != sl for block in getattr(step, name) or ()):
            yield f"{name} does not hold sl values"


def _faults_of_ops(step: LoggedStep) -> Iterator[str]:
    for _, start_ns, end_ns, wait_start_ns, wait_end_ns in step.ops:
        wait = (start_ns if wait_start_ns is None else wait_start_ns, end_ns if wait_end_ns is None else wait_end_ns)
        if (wait_start_ns is None) != (wait_end_ns is None) or not start_ns <= wait[0] <= wait[1] <= end_ns:
            yield "an op's span, or its wait in it, is no span"

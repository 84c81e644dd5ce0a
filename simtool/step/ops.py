"""The op catalogue: what one decode step is made of (docs/architecture.md, "the step").

An op is a piece of host work. It may launch device work on streams, and it may block until that work is done.
`needs` and `gives` name the data that flow between ops; device work waits for the device work of whichever op
gave what it needs, so stream order and event waits both follow from this one table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from types import MappingProxyType

from simtool.errors import PlacementError

_SYNCS_SUFFIX = " (syncs)"


class Lane(StrEnum):
    """Where work runs: the host thread or one of three device streams."""

    HOST = "host"
    PREPARE = "prepare"
    COMPUTE = "compute"
    COPY = "copy"


@dataclass(frozen=True)
class DeviceWork:
    """One piece of work on a stream, launched by a host op. `features` are what its duration grows with."""

    name: str
    lane: Lane
    features: tuple[str, ...]


@dataclass(frozen=True)
class Op:
    """One host op.

    needs, gives: names of data. features: what the host time grows with (see step/cost_features.py).
    works: device work in launch order. blocks: the host waits before the op ends, for the last of `early_works` or,
    where there is none, for the device work that gave what the op needs. late: how many of `works`, the last ones,
    are launched only after that wait. syncs: it blocks as a property of its implementation (see `syncing`).
    prior: data of the step before the one that it serves. ahead: it runs in that step already (see `for_next_step`).
    """

    name: str
    what: str
    needs: tuple[str, ...]
    gives: tuple[str, ...]
    features: tuple[str, ...]
    works: tuple[DeviceWork, ...] = ()
    blocks: bool = False
    late: int = 0
    syncs: bool = False
    prior: tuple[str, ...] = ()
    ahead: bool = False

    @property
    def early_works(self) -> tuple[DeviceWork, ...]:
        """What is launched before any wait."""
        return self.works[: len(self.works) - self.late]

    @property
    def late_works(self) -> tuple[DeviceWork, ...]:
        """What is launched after the wait."""
        return self.works[len(self.works) - self.late :]

    @property
    def priced_as(self) -> str:
        """The name of its costs: an op that syncs has others than the same op where it does not."""
        return f"{self.name}{_SYNCS_SUFFIX}" if self.syncs else self.name


def _upload(name: str, *features: str) -> DeviceWork:
    return DeviceWork(name, Lane.PREPARE, features)


def _kernel(name: str, *features: str) -> DeviceWork:
    return DeviceWork(name, Lane.COMPUTE, features)


def _copy(name: str, *features: str) -> DeviceWork:
    return DeviceWork(name, Lane.COPY, features)


#: What the target forward grows with: rows and graphs, and the keys that attention reads, with and without padding.
_TARGET_SIZES = ("batch", "ragged", "target_rows", "past_graphs", "past_graph_rows", "validate_kv", "rectangle_keys")

_OPS = (
    Op(
        "schedule",
        "pick the running batch, admit and retire requests",
        (),
        ("running",),
        ("batch",),
        prior=("finished",),
    ),
    Op(
        "read_states",
        "DecodeState of each slot under the freshness gate; at lag >= 1 also the stored confidence",
        ("running",),
        ("states",),
        ("batch",),
        prior=("finished",),
    ),
    Op(
        "decide",
        "controller: confidence and kv lengths -> prefix lengths",
        ("states", "decision_confidence"),
        ("prefix_lengths",),
        ("decide_work",),
    ),
    Op(
        "build_query",
        "draft block rows, positions, context lengths; upload",
        ("states",),
        ("query_batch", "query_lengths"),
        ("block_rows",),
        (_upload("build_query", "block_rows"),),
    ),
    Op(
        "advance_query",
        "on the device: the block rows of the next draft, their positions and context lengths, from the verdict",
        (),
        ("query_batch",),
        (),
        (_kernel("advance_query", "block_rows"),),
        prior=("verdict",),
    ),
    Op(
        "launch_draft",
        "launch the draft forward",
        ("query_batch",),
        ("draft_hidden",),
        (),
        (_kernel("draft", "draft_rows", "draft_kv", "draft_rectangle"),),
        prior=("context",),
    ),
    Op(
        "rebind_draft",
        "NPU graphs: bind this step's lengths to each attention op of the captured draft forward",
        ("query_lengths",),
        ("bound_draft",),
        ("draft_rows",),
    ),
    Op(
        "build_dense",
        "validate batch of batch x (N+1) rows: positions, cache slots, per-row lengths and block tables; upload",
        ("states",),
        ("dense_batch", "validate_lengths"),
        ("dense_rows",),
        (_upload("build_dense", "dense_rows"),),
    ),
    Op(
        "build_varlen",
        "validate batch of the W rows that survive the prune; upload",
        ("states", "prefix_lengths"),
        ("varlen_batch", "validate_lengths"),
        ("validate_rows",),
        (_upload("build_varlen", "validate_rows"),),
    ),
    Op(
        "launch_sample",
        "launch the drafter's sampling and its confidence",
        ("draft_hidden",),
        ("draft_tokens", "confidence"),
        (),
        (_kernel("sample", "draft_tokens"),),
    ),
    Op(
        "launch_tokens",
        "launch the drafter's sampling without its confidence, for a step that decides nothing",
        ("draft_hidden",),
        ("draft_tokens",),
        (),
        (_kernel("sample_tokens", "draft_tokens"),),
    ),
    Op(
        "read_confidence",
        "blocking read of this step's confidence",
        ("confidence",),
        ("decision_confidence",),
        ("draft_tokens",),
        (_copy("read_confidence", "draft_tokens"),),
        blocks=True,
    ),
    Op(
        "send_confidence",
        "start the copy of this step's confidence to the host, and wait for nothing",
        ("confidence",),
        ("sent_confidence",),
        (),
        (_copy("read_confidence", "draft_tokens"),),
    ),
    Op(
        "await_confidence",
        "wait for this step's confidence, whose copy is under way, and decide by it",
        ("sent_confidence",),
        ("decision_confidence",),
        ("draft_tokens",),
        blocks=True,
    ),
    Op(
        "keep_confidence",
        "wait for this step's confidence, whose copy is under way, and put it into the DecodeState",
        ("sent_confidence", "states"),
        ("stored_confidence",),
        ("draft_tokens",),
        blocks=True,
    ),
    Op(
        "fill_dense",
        "put the drafted tokens into the dense validate rows",
        ("dense_batch", "draft_tokens"),
        ("filled_batch",),
        (),
        (_kernel("fill_dense", "dense_rows"),),
    ),
    Op(
        "fill_varlen",
        "build source and destination index lists, upload them, gather and scatter the drafted tokens",
        ("varlen_batch", "draft_tokens", "prefix_lengths"),
        ("filled_batch",),
        ("validate_rows",),
        (_upload("fill_varlen_index", "validate_rows"), _kernel("fill_varlen", "validate_rows")),
    ),
    Op(
        "build_fill_index",
        "the first half of fill_varlen: index lists from prefix lengths alone; upload",
        ("prefix_lengths",),
        ("fill_index",),
        ("validate_rows",),
        (_upload("fill_varlen_index", "validate_rows"),),
    ),
    Op(
        "scatter_fill",
        "the second half of fill_varlen: gather and scatter the drafted tokens",
        ("varlen_batch", "draft_tokens", "fill_index"),
        ("filled_batch",),
        (),
        (_kernel("fill_varlen", "validate_rows"),),
    ),
    Op(
        "decide_budget",
        "controller: confidence and kv lengths -> how many drafts the whole batch verifies, and no more than that",
        ("states", "decision_confidence"),
        ("budget",),
        ("decide_work",),
    ),
    Op(
        "build_budget",
        "one row a sequence: position, cache pages, and the budget; the device makes the validate rows of it. Upload",
        ("states", "budget"),
        ("budget_batch",),
        ("batch",),
        (_upload("build_budget", "batch"),),
    ),
    Op(
        "split_budget",
        "on the device: the budget's drafts to the likeliest of this step's, and so a prefix length to each sequence",
        ("confidence", "budget_batch"),
        ("device_prefix_lengths",),
        (),
        (_kernel("split_budget", "draft_tokens"),),
    ),
    Op(
        "compact_rows",
        "on the device: validate rows of the split, as many as the budget says, with the drafted tokens in them",
        ("budget_batch", "device_prefix_lengths", "draft_tokens"),
        ("filled_batch",),
        (),
        (_kernel("compact_rows", "validate_rows"),),
    ),
    Op(
        "rebind_target",
        "NPU graphs: bind this step's lengths to each attention op of the captured target forward",
        ("validate_lengths",),
        ("bound_target",),
        ("target_rows",),
    ),
    Op(
        "launch_target",
        "launch the target forward; each row is a q=1 decode row",
        ("filled_batch",),
        ("logits",),
        (),
        (_kernel("target", *_TARGET_SIZES),),
    ),
    Op(
        "launch_verify",
        "launch the scatter of varlen logits to dense, rejection sampling and the cut at the prefix length",
        ("logits", "draft_tokens"),
        ("verdict",),
        (),
        (_kernel("verify", "validate_rows", "dense_rows"),),
    ),
    Op(
        "read_tokens",
        "blocking read of the emitted tokens: the step's one unavoidable sync",
        ("verdict",),
        ("tokens",),
        ("batch",),
        (_copy("read_tokens", "batch"),),
        blocks=True,
    ),
    Op(
        "send_tokens",
        "start the copy of the emitted tokens to the host, and wait for nothing",
        ("verdict",),
        ("sent_tokens",),
        (),
        (_copy("read_tokens", "batch"),),
    ),
    Op(
        "await_tokens",
        "wait for the emitted tokens, whose copy is under way",
        ("sent_tokens",),
        ("tokens",),
        ("batch",),
        blocks=True,
    ),
    Op(
        "store_confidence",
        "this step's confidence into the DecodeState, one read past the sync",
        ("confidence", "tokens"),
        ("stored_confidence",),
        ("draft_tokens",),
        (_copy("store_confidence", "draft_tokens"),),
        blocks=True,
    ),
    Op(
        "write_context",
        "accepted target hidden states into the draft's context KV; sync",
        ("tokens",),
        ("context",),
        ("accepted_rows",),
        (_upload("write_context", "accepted_rows"), _kernel("context_kv", "accepted_rows")),
        blocks=True,
    ),
    Op(
        "extend_context",
        "hidden states of all validated rows into the draft's context KV, before it is known which of them stand",
        ("logits",),
        ("context",),
        (),
        (_kernel("context_all", "validate_rows"),),
    ),
    Op("finish", "stop checks, output, metrics", ("tokens",), ("finished",), ("batch",)),
    Op(
        "build_prefill",
        "prompt rows of newly admitted requests: tokens, positions, cache slots; upload",
        ("running",),
        ("prefill_batch",),
        ("prompt_rows",),
        (_upload("build_prefill", "prompt_rows"),),
    ),
    Op(
        "launch_prefill",
        "launch the target forward over prompts and the choice of each first token",
        ("prefill_batch",),
        ("verdict",),
        (),
        (_kernel("prefill", "prompt_rows", "prompt_kv"),),
    ),
)

#: The ops at whose end the emitted tokens are on the host.
PUBLISHES = ("read_tokens", "await_tokens")

CATALOGUE: Mapping[str, Op] = MappingProxyType({op.name: op for op in _OPS})


@cache
def for_next_step(op: Op) -> Op:
    """Return the op as it runs for the step after the one in whose order it stands: on that step's data."""
    return replace(op, ahead=True)


def plain(op: Op) -> Op:
    """Return the op without a sync; for whichever step it runs, it goes on running."""
    own = CATALOGUE[op.name]
    return for_next_step(own) if op.ahead else own


@cache
def syncing(op: Op) -> Op:
    """Return the op as an implementation of it that blocks, where the algorithm asks for no wait.

    An upload from memory that is not pinned, or an index made straight on the device, waits until the device has got
    there: the host waits for what the op reads and for its own uploads, and launches its kernels after that. Raises
    PlacementError for an op that waits anyway, or touches no device.
    """
    if op.syncs:
        return op
    if op.blocks:
        raise PlacementError(f"{op.name!r} waits for the device anyway; leave it out of sync")
    if not op.works:
        raise PlacementError(f"{op.name!r} runs nothing on the device, so it has nothing to sync with")
    return replace(op, blocks=True, syncs=True, late=sum(work.lane is Lane.COMPUTE for work in op.works))


def priced_op(key: str) -> Op:
    """Return the op whose costs go by this key (`Op.priced_as`); raises KeyError for none."""
    plain = CATALOGUE[priced_name(key)]
    return syncing(plain) if key != plain.name else plain


def priced_name(key: str) -> str:
    """Return the name of the op whose costs go by this key, whether it syncs there or not."""
    return key.removesuffix(_SYNCS_SUFFIX)

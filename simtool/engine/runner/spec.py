"""What a device is asked to run, and what it says about itself: plain data, no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from simtool.errors import UsageError
from simtool.step.graph_buckets import GraphBuckets

Dtype = Literal["float32", "float64", "bfloat16", "float16"]
#: How decode forwards attend, where torch's own kernels do it.
AttentionKind = Literal["gather", "pages"]
ATTENTIONS: tuple[AttentionKind, ...] = ("gather", "pages")
#: Keys of the smallest tile that a kernel over pages reads.
_LEAST_PAGE = 16
#: How sampled drafts are judged: by rejection sampling, or by equality with a token that no draft can change.
AcceptKind = Literal["reject", "match"]
ACCEPTS: tuple[AcceptKind, ...] = ("reject", "match")
#: How rows are laid out for an NPU's attention.
NpuLayout = Literal["BSH", "TND"]
NPU_LAYOUTS: tuple[NpuLayout, ...] = ("BSH", "TND")
DTYPES: tuple[Dtype, ...] = ("float32", "float64", "bfloat16", "float16")

#: What an output of a block is called once the rows of the next block are made.
VERIFIED = "verified_{}"


@dataclass(frozen=True)
class SamplingConfig:
    """How tokens are chosen. temperature 0: greedy. top_k 0 and top_p 1 switch those cuts off.

    greedy_draft: the drafter proposes its likeliest token (q is one-hot) while the target still samples.
    accept: reject: rejection sampling. match: the target's token at a position is drawn by random numbers of that
    position alone, a draft stands where it equals it, and the drafter proposes its likeliest token: the text then
    follows from the prompt, as a greedy one does.
    Raises UsageError for values out of range, and for settings that would change nothing.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    greedy_draft: bool = False
    accept: AcceptKind = "reject"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise UsageError(f"temperature is {self.temperature}; expected 0 (greedy) or a positive number")
        if self.top_k < 0:
            raise UsageError(f"top_k is {self.top_k}; expected 0 (off) or a positive whole number")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"top_p is {self.top_p}; expected more than 0 and at most 1 (off)")
        if self.accept not in ACCEPTS:
            raise UsageError(f"accept is {self.accept!r}; expected one of {', '.join(ACCEPTS)}")
        matches = self.accept == "match"
        given = {
            "top_k": self.top_k > 0,
            "top_p": self.top_p < 1,
            "greedy_draft": self.greedy_draft,
            "accept match": matches,
        }
        if self.greedy and (idle := [name for name, is_given in given.items() if is_given]):
            raise UsageError(
                f"{', '.join(idle)}: would change nothing at temperature 0; raise it, or leave it at 0 alone"
            )
        if matches and self.greedy_draft:
            raise UsageError("greedy_draft: would change nothing where drafts only have to match; leave it out")

    @property
    def greedy(self) -> bool:
        """Whether the target's likeliest token is always taken."""
        return self.temperature == 0

    @property
    def settled(self) -> bool:
        """Whether the text follows from the prompt, whatever is drafted and offered."""
        return self.greedy or self.accept == "match"


@dataclass(frozen=True)
class RunnerSpec:
    """The models and the room they get.

    target, draft: checkpoint folders. slots: sequences at once. kv_blocks x block_size: tokens of target KV.
    drafts: N, tokens drafted per block; None takes what the drafter was trained for.
    context_tokens: longest prompt + output of one sequence; None takes what both models allow.
    graph_rows: largest target batch to capture as a graph; 0: no graphs. attention: gather: keys are copied together
    before they are attended to; pages: they are read where they lie; None: what suits the device. npu_layout:
    of an NPU's attention alone.
    """

    target: Path
    draft: Path
    slots: int
    kv_blocks: int
    block_size: int = 16
    drafts: int | None = None
    context_tokens: int | None = None
    dtype: Dtype = "float32"
    sampling: SamplingConfig = SamplingConfig()
    graph_rows: int = 0
    attention: AttentionKind | None = None
    npu_layout: NpuLayout = "BSH"

    def __post_init__(self) -> None:
        if self.attention not in (None, *ATTENTIONS):
            raise UsageError(f"attention is {self.attention!r}; expected one of {', '.join(ATTENTIONS)}")
        if self.npu_layout not in NPU_LAYOUTS:
            raise UsageError(f"npu_layout is {self.npu_layout!r}; expected one of {', '.join(NPU_LAYOUTS)}")
        if self.graph_rows < 0:
            raise UsageError(f"graph_rows is {self.graph_rows}; expected 0 (no graphs) or more")
        for name in ("slots", "kv_blocks", "block_size"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; expected 1 or more")
        if self.drafts is not None and self.drafts < 1:
            raise UsageError(f"drafts is {self.drafts}; expected 1 or more")
        if self.dtype not in DTYPES:
            raise UsageError(f"dtype is {self.dtype!r}; expected one of {', '.join(DTYPES)}")


@dataclass(frozen=True)
class RunnerInfo:
    """What the host must know of the loaded models.

    drafts: N. trained_drafts: the N the drafter was trained for. block_width: rows of the draft forward per
    sequence. max_tokens: longest prompt + output of one sequence. confidence_head: false where confidence is the
    drafter's own probability. graphs: the buckets at which forwards were captured. attention: how decode forwards
    attend; None: by kernels of the device's own.
    """

    algorithm: Literal["dspark", "dflash"]
    drafts: int
    trained_drafts: int
    block_width: int
    mask_token_id: int
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    max_tokens: int
    confidence_head: bool
    graphs: GraphBuckets = field(default_factory=GraphBuckets)
    attention: AttentionKind | None = "gather"


def attention_on(spec: RunnerSpec, kind: str) -> AttentionKind | None:
    """Return how decode forwards attend on a kind of device; None: by its own kernels.

    Unless asked for otherwise a cuda device reads pages, but for what its kernel cannot do: pages that are no whole
    tiles, and float64. Raises UsageError where pages are asked for and cannot be read.
    """
    if kind == "npu":
        if spec.attention is not None:
            raise UsageError(f"attention is {spec.attention!r}, and an npu has kernels of its own; leave it out")
        return None
    tiled = spec.block_size >= _LEAST_PAGE and not spec.block_size & (spec.block_size - 1)
    if spec.attention == "pages" and not tiled:
        raise UsageError(
            f"block_size is {spec.block_size}; attention over pages reads tiles of {_LEAST_PAGE}, 32, 64, ... keys: "
            "take one of these, or attention 'gather'"
        )
    return spec.attention or ("pages" if kind == "cuda" and tiled and spec.dtype != "float64" else "gather")

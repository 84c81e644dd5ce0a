"""Opening a session: a device with the models on it, and room for the requests that it shall serve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simtool.engine.devices.open import open_device
from simtool.engine.models.json_file import read_json, read_size
from simtool.engine.models.shipped import Models, choose_models
from simtool.engine.prompts.prompt import Prompt
from simtool.engine.runner.spec import RunnerSpec, SamplingConfig
from simtool.engine.serving.session import Session
from simtool.errors import UsageError
from simtool.progress import Say, unsaid


@dataclass(frozen=True, kw_only=True)
class SessionSettings:
    """A device, the models on it, and the room they have.

    device: cpu, cuda, npu or auto. concurrency: requests that run at once. dtype: float32, float64, bfloat16 or
    float16. kv_blocks: blocks of the KV cache, of block_size tokens each; None makes room for every slot's longest
    request. graph_rows: capture decode forwards up to so many validate rows; 0: none. attention: see
    `RunnerSpec`. npu_layout: BSH or TND, of an NPU's attention.
    """

    models: Models = field(default_factory=choose_models)
    device: str = "cpu"
    concurrency: int = 8
    dtype: str = "float32"
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    kv_blocks: int | None = None
    block_size: int = 16
    graph_rows: int = 0
    attention: str | None = None
    npu_layout: str = "BSH"


def open_session(asked: SessionSettings, prompts: Sequence[Prompt], say: Say = unsaid) -> Session:
    """Open a device with the models loaded and room for the longest of the prompts in every slot.

    say: hears what the session warns of. Raises UsageError for settings that cannot be, DeviceError for an absent
    device, CheckpointError and CapacityError for models that it cannot run.
    """
    if asked.concurrency < 1:
        raise UsageError(f"--concurrency is {asked.concurrency}; expected 1 or more")
    context_tokens = _context_tokens(asked.models, prompts)
    blocks = asked.kv_blocks
    if blocks is None and asked.block_size > 0:
        blocks = asked.concurrency * -(-context_tokens // asked.block_size)
    spec = RunnerSpec(
        asked.models.target,
        asked.models.draft,
        slots=asked.concurrency,
        kv_blocks=1 if blocks is None else blocks,
        block_size=asked.block_size,
        drafts=asked.models.drafts,
        context_tokens=context_tokens,
        dtype=asked.dtype,  # type: ignore[arg-type]  # RunnerSpec checks it
        sampling=asked.sampling,
        graph_rows=asked.graph_rows,
        attention=asked.attention,  # type: ignore[arg-type]  # so is this
        npu_layout=asked.npu_layout,  # type: ignore[arg-type]  # RunnerSpec checks it
    )
    opened = Session(open_device(asked.device, spec), spec, seed=asked.sampling.seed)
    for warning in opened.warnings:
        say(f"warning: {warning}")
    return opened


def _context_tokens(models: Models, prompts: Sequence[Prompt]) -> int:
    """Positions of the longest request and the block drafted past its end, as far as the target has them."""
    block = read_json(models.draft / "config.json").get("block_size")
    ahead = models.drafts or (block if isinstance(block, int) else 0)
    longest = max(len(prompt.prompt_ids) + prompt.max_new_tokens for prompt in prompts)
    return min(longest + ahead + 1, read_size(models.target, "max_position_embeddings", 32_768))

"""Requests through the real worker and the real models, on a device with a virtual clock: no waiting, no noise.

The worker may be told what to prune (`Pruning`), and everything it did is kept (`Keeping`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache

from simtool.engine.devices.virtual import TimedDevice, same_durations
from simtool.engine.models.checkpoint import load_target
from simtool.engine.outcomes.reference import target_only
from simtool.engine.prompts.prompt import Prompt
from simtool.engine.runner.runner import Runner, load_runner
from simtool.engine.runner.spec import RunnerSpec
from simtool.engine.serving.engine import RunResult, run
from simtool.engine.serving.recorder import Recorder
from simtool.engine.serving.worker import BlockShape, StepState, Worker
from simtool.step.controller import ControllerSettings
from simtool.step.placement import BUILT_IN, Placement, with_lag
from simtool.step.scheduler import BlockPool, Scheduler
from tests.engine import golden

PLACEMENTS: dict[str, Placement] = {
    **BUILT_IN,
    "lag-2": with_lag(BUILT_IN["lag"], 2),
    "lag-overlap-3": with_lag(BUILT_IN["lag-overlap"], 3),
}
DECIDING = [name for name, placement in PLACEMENTS.items() if placement.decides]

#: How many drafts of a sequence to offer: (step, place in the batch, N) -> 0..N.
Prefixes = Callable[[int, int, int], int]


class Keeping(Recorder):
    """Keeps every step's state, with what the device says of the block."""

    observes = ("draft_tokens", "confidence", "draft_prob")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        super().__init__(now_ns)
        self.steps: list[StepState] = []

    def end_step(self, s, timings) -> None:
        self.steps.append(s)

    @property
    def decodes(self) -> list[StepState]:
        return [s for s in self.steps if not s.prefill]


class Pruning(Worker):
    """A worker that is told its prefix lengths instead of deciding them."""

    prefixes: Prefixes

    def decide(self, s: StepState) -> None:
        n = self.block.num_speculative_tokens
        s.prefix_lens = [self.prefixes(s.index, i, n) for i in range(len(s.sequences))]
        s.pruned = any(prefix < n for prefix in s.prefix_lens)


@cache
def runner(spec: RunnerSpec) -> Runner:
    """One Runner for all tests of a spec: later runs find the caches full of earlier runs' keys."""
    return load_runner(spec)


def serve(
    spec: RunnerSpec,
    prompts: Sequence[Prompt],
    placement: Placement,
    *,
    prefixes: Prefixes | None = None,
    controller: ControllerSettings | None = None,
    concurrency: int | None = None,
    kv_blocks: int | None = None,
    stop: frozenset[int] = frozenset(),
) -> tuple[RunResult, Keeping]:
    """Serve the prompts and return the result and every step."""
    device = TimedDevice(runner(spec), same_durations(1_000))
    info = device.info
    pool = BlockPool(kv_blocks or spec.kv_blocks, spec.block_size)
    scheduler = Scheduler(concurrency or spec.slots, pool, lookahead=info.drafts + 1)
    recorder = Keeping(device.now_ns)
    block = BlockShape(info.drafts, info.block_width, info.mask_token_id)
    kind = Worker if prefixes is None else Pruning
    worker = kind(device, scheduler, block, placement, controller or ControllerSettings(), recorder)
    if isinstance(worker, Pruning) and prefixes is not None:
        worker.prefixes = prefixes
    worker.stop_tokens = stop
    return run(worker, prompts, info.max_tokens), recorder


@cache
def reference(name: str, prompt: tuple[int, ...], tokens: int) -> list[int]:
    """What the target alone says, in float64."""
    return target_only(_target(name), prompt, tokens)


@cache
def _target(name: str):
    import torch  # noqa: PLC0415

    return load_target(golden.FOLDER / name / "target", torch.float64)


def random_prompts(vocab: int, lengths: Sequence[int], seed: int = 0) -> list[tuple[int, ...]]:
    rng = random.Random(seed)
    return [tuple(rng.randrange(vocab) for _ in range(length)) for length in lengths]


def requests(prompts: Sequence[tuple[int, ...]], tokens: int | Sequence[int]) -> list[Prompt]:
    counts = [tokens] * len(prompts) if isinstance(tokens, int) else tokens
    return [
        Prompt(f"r{i:02d}", prompt, count, key=i) for i, (prompt, count) in enumerate(zip(prompts, counts, strict=True))
    ]


def zero(step: int, i: int, n: int) -> int:
    return 0


def full(step: int, i: int, n: int) -> int:
    return n


def ragged(seed: int) -> Prefixes:
    """Any prefix at any place, 0 and N included; the same for the same seed."""
    return lambda step, i, n: random.Random(hash((seed, step, i))).randint(0, n)

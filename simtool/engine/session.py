"""A device with its models loaded, on which any number of runs are made and recorded."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType

from simtool import __version__
from simtool.engine.device import Device
from simtool.engine.engine import Prompt, RunResult, run
from simtool.engine.machine import MachineMeter
from simtool.engine.recorder import BundleRecorder, Recorder
from simtool.engine.spec import RunnerInfo, RunnerSpec
from simtool.engine.worker import BlockShape, Worker
from simtool.errors import UsageError
from simtool.step.batching import BlockPool, Request, Scheduler
from simtool.step.controller import ControllerSettings
from simtool.step.placement import Placement
from simtool.trace.bundle import BundleWriter
from simtool.trace.manifest import Manifest

_WARM_UP_TOKENS = 16


@dataclass(frozen=True)
class RunPlan:
    """What one run does: who is served, in which placement, under which controller."""

    prompts: Sequence[Prompt]
    placement: Placement
    controller: ControllerSettings = field(default_factory=ControllerSettings)


@dataclass
class Session:
    """One open device. `concurrency` requests run at once; a context manager that closes the device."""

    device: Device
    spec: RunnerSpec
    seed: int = 0
    warnings: list[str] = field(default_factory=list)
    _models: dict[str, dict[str, str]] | None = None

    @property
    def info(self) -> RunnerInfo:
        """What the loaded models are."""
        return self.device.info

    def __post_init__(self) -> None:
        info = self.info
        if info.drafts != info.trained_drafts:
            self.warnings.append(
                f"SL {info.drafts} differs from the drafter's trained block of {info.trained_drafts}: "
                "the block is simply that many rows, and acceptance may suffer"
            )
        if self.spec.dtype in ("bfloat16", "float16"):
            self.warnings.append(
                f"{self.spec.dtype}: where two tokens all but tie, another batch may choose the other one; tokens are "
                "sure to repeat in float32 and float64 only"
            )

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.device.close()

    def run(
        self, plan: RunPlan, recorder: Recorder | None = None, progress: Callable[[int], None] = lambda finished: None
    ) -> RunResult:
        """Serve the prompts; nothing is kept but the result, unless a recorder is given."""
        worker = self._worker(plan, recorder or Recorder(self.device.now_ns))
        return run(worker, plan.prompts, self.info.max_tokens, progress)

    def warm_up(self, plan: RunPlan) -> None:
        """Run a few tokens of the first requests, so that no recorded step pays for first uses."""
        prompts = [
            Prompt(f"warm-{i}", prompt.prompt_ids, min(prompt.max_new_tokens, _WARM_UP_TOKENS))
            for i, prompt in enumerate(plan.prompts[: self.spec.slots])
        ]
        self.run(RunPlan(prompts, plan.placement, plan.controller))

    def record(
        self,
        path: Path,
        plan: RunPlan,
        *,
        force: bool = False,
        details: Mapping[str, object] | None = None,
        progress: Callable[[int], None] = lambda finished: None,
    ) -> RunResult:
        """Serve the prompts and leave a bundle at `path`. An error or an interrupt leaves it marked incomplete."""
        self.check(plan)
        with BundleWriter(path, self._manifest(plan, details or {}), force=force) as writer:
            meter = MachineMeter(self.device.pids)
            greedy = self.spec.sampling.greedy
            recorder = BundleRecorder(self.device.now_ns, writer, plan.placement.name, greedy=greedy)
            result = self.run(plan, recorder, progress)
            use = meter.stop()
            machine = use.to_dict() if use else None
            clock = self.device.clock_facts()
            writer.close(details={**writer.manifest.details, "machine": machine, "clock": clock})
        return result

    def profile(self, folder: Path, plan: RunPlan, steps: int) -> None:
        """Run the plan's first steps again under the framework's profiler, into a folder; nothing is recorded.

        A run of its own, because a profiler lengthens what it watches.
        """
        if steps < 1:
            raise UsageError(f"{steps} steps to profile; expected 1 or more")
        self.device.start_profile(folder)
        worker = self._worker(plan, Recorder(self.device.now_ns))
        run(worker, plan.prompts, self.info.max_tokens, most_steps=steps)
        self.device.stop_profile()

    def check(self, plan: RunPlan) -> None:
        """Raise UsageError or CapacityError for a plan that cannot run, before a folder is made."""
        names = [prompt.request_id for prompt in plan.prompts]
        if not names:
            raise UsageError("no prompts to serve; expected one or more")
        if len(set(names)) < len(names):
            raise UsageError("two prompts share a request id; give each its own")
        self._check_rebinds(plan.placement)
        scheduler = self._scheduler()
        for prompt in plan.prompts:
            _known(prompt, self.info.vocab_size)
            _fits(prompt, len(prompt.prompt_ids) + prompt.max_new_tokens + scheduler.lookahead, self.info.max_tokens)
            scheduler.add(Request(prompt.request_id, len(prompt.prompt_ids), prompt.max_new_tokens))

    def _check_rebinds(self, placement: Placement) -> None:
        if placement.rebinds and not self.info.graphs.rebinds:
            raise UsageError(f"{placement.name} binds lengths to graphs, and none here takes them; drop +rebind")
        if self.info.graphs.rebinds and not placement.rebinds:
            raise UsageError(f"graphs of {self.device.name} take lengths from the host: use {placement.name}+rebind")

    def _scheduler(self) -> Scheduler:
        pool = BlockPool(self.spec.kv_blocks, self.spec.block_size)
        return Scheduler(self.spec.slots, pool, lookahead=self.info.drafts + 1)

    def _worker(self, plan: RunPlan, recorder: Recorder) -> Worker:
        block = BlockShape(self.info.drafts, self.info.block_width, self.info.mask_token_id)
        worker = Worker(self.device, self._scheduler(), block, plan.placement, plan.controller, recorder)
        worker.stop_tokens = frozenset(self.info.eos_token_ids)
        return worker

    def _manifest(self, plan: RunPlan, details: Mapping[str, object]) -> Manifest:
        spec = self.spec
        if self._models is None:
            self._models = {"target": identity(spec.target), "draft": identity(spec.draft)}
        sampling = asdict(spec.sampling)
        return Manifest(
            origin="live",
            engine="simtool",
            engine_version=__version__,
            device=self.device.name,
            device_name=self.device.hardware,
            models=self._models,
            algorithm=self.info.algorithm,
            sl=self.info.drafts,
            block_width=self.info.block_width,
            concurrency=spec.slots,
            placement=plan.placement.to_dict(),
            controller=asdict(plan.controller),
            sampling=sampling,
            seed=self.seed,
            clock=self.device.clock,
            warnings=list(self.warnings),
            details={
                "dtype": spec.dtype,
                "kv_blocks": spec.kv_blocks,
                "block_size": spec.block_size,
                "executors": dict(self.device.executors),
                "graphs": self.info.graphs.to_dict(),
                "host": {"python": platform.python_version(), "platform": platform.platform()},
                **details,
            },
        )


def _known(prompt: Prompt, vocab_size: int) -> None:
    for token in prompt.prompt_ids:
        if not 0 <= token < vocab_size:
            raise UsageError(
                f"request {prompt.request_id}: token id {token} outside 0..{vocab_size - 1}; "
                "encode with this target's tokenizer"
            )


def _fits(prompt: Prompt, needed: int, limit: int) -> None:
    if needed > limit:
        raise UsageError(
            f"request {prompt.request_id}: {len(prompt.prompt_ids)} prompt + {prompt.max_new_tokens} new tokens and "
            f"the drafts ahead need {needed} positions; the models hold {limit}: shorten it or --max-new-tokens"
        )


def identity(folder: Path) -> dict[str, str]:
    """Return a checkpoint folder's name and the sha256 of its weights, as manifests hold them."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
    return {"id": folder.name, "sha256": digest.hexdigest()}

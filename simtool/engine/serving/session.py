"""A device with its models loaded, on which any number of runs are made and recorded."""

from __future__ import annotations

import itertools
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType

from simtool.engine.devices.protocol import Device, WorkTiming
from simtool.engine.models.identity import identity
from simtool.engine.prompts.prompt import Prompt
from simtool.engine.runner.spec import RunnerInfo, RunnerSpec
from simtool.engine.serving.engine import (
    LiveRun,
    RunResult,
    queue,
    run,
)
from simtool.engine.serving.host_load import MachineMeter
from simtool.engine.serving.interleave import PausableClock, interleave
from simtool.engine.serving.recorder import Recorder, TraceRecorder
from simtool.engine.serving.worker import BlockShape, Worker
from simtool.errors import UsageError
from simtool.progress import Expected
from simtool.step.controller import ControllerSettings
from simtool.step.placement import Placement
from simtool.step.scheduler import BlockPool, Scheduler
from simtool.trace.manifest import Manifest
from simtool.trace.writer import TraceWriter
from simtool.version import __version__

_WARM_UP_TOKENS = 16


@dataclass(frozen=True)
class RunPlan:
    """What one run does: who is served, in which placement, under which controller.

    prompt_seed: the seed that drew the prompts; None: none did, or it is not known.
    """

    prompts: Sequence[Prompt]
    placement: Placement
    controller: ControllerSettings = field(default_factory=ControllerSettings)
    prompt_seed: int | None = None


@dataclass(frozen=True)
class DeviceShare:
    """A run's part of the device: slots first_slot, first_slot + 1, ... and KV blocks likewise."""

    slots: int
    kv_blocks: int
    first_slot: int = 0
    first_block: int = 0


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
        self,
        plan: RunPlan,
        recorder: Recorder | None = None,
        progress: Callable[[int], None] = lambda tokens: None,
        share: DeviceShare | None = None,
    ) -> RunResult:
        """Serve the prompts; nothing is kept but the result, unless a recorder is given. progress: hears how
        many tokens are served. share: None is all of it."""
        worker = self._worker(plan, recorder or Recorder(self.device.now_ns), share)
        return run(worker, plan.prompts, self.info.max_tokens, progress)

    def warm_up(self, plan: RunPlan) -> float:
        """Run a few tokens of the first requests, so that no recorded step pays for first uses.

        Returns the seconds in which each slot gets a token, by the median step.
        """
        prompts = [
            Prompt(f"warm-{i}", prompt.prompt_ids, min(prompt.max_new_tokens, _WARM_UP_TOKENS))
            for i, prompt in enumerate(plan.prompts[: self.spec.slots])
        ]
        stamps = [time.perf_counter()]
        done = self.run(
            RunPlan(prompts, plan.placement, plan.controller), progress=lambda _: stamps.append(time.perf_counter())
        )
        steps_s = [end - start for start, end in itertools.pairwise(stamps)]
        longest = max(len(facts.output_ids) for facts in done.requests.values())
        return statistics.median(steps_s) * done.steps / max(longest, 1)

    def expected(self, plans: Sequence[tuple[RunPlan, float]], repeats: int = 1) -> Expected:
        """Return what it takes to run plans in turns, at most, each with what its warm-up said; see `warm_up`."""
        slots = max(self.spec.slots // len(plans), 1)
        tokens = sum(prompt.max_new_tokens for plan, _ in plans for prompt in plan.prompts)
        seconds = sum(
            token_s * sum(prompt.max_new_tokens for prompt in plan.prompts) / min(slots, len(plan.prompts))
            for plan, token_s in plans
        )
        basis = f"up to {repeats * tokens:,} tokens, at the pace of the warm-up"
        return Expected(repeats * seconds, basis, at_most=True)

    def record(
        self,
        path: Path,
        plan: RunPlan,
        *,
        force: bool = False,
        details: Mapping[str, object] | None = None,
        progress: Callable[[int], None] = lambda tokens: None,
    ) -> RunResult:
        """Serve the prompts and leave a trace at `path`. An error or an interrupt leaves it marked incomplete."""
        self.check(plan)
        with TraceWriter(path, self._manifest(plan, self._whole, details or {}), force=force) as writer:
            meter = MachineMeter(self.device.pids)
            result = self.run(plan, self._recorder(self.device.now_ns, writer, plan), progress)
            self._close(writer, meter, result)
        return result

    def record_interleaved(
        self,
        jobs: Sequence[tuple[Path | None, RunPlan]],
        *,
        force: bool = False,
        details: Mapping[str, object] | None = None,
        progress: Callable[[int], None] = lambda tokens: None,
        silent: Callable[[Callable[[], int]], Recorder] = Recorder,
    ) -> list[RunResult]:
        """Record several plans step by step in turn, each on an equal share of the device (interleave.py).

        The device's slots and KV blocks are divided; a trace's concurrency is its share's. A job without a path runs
        its turns and keeps nothing; silent: makes its recorder from its clock. Returns the results as the jobs came.
        Raises UsageError for a plan that leaves work behind its step, and as `check` for one that cannot run.
        """
        ahead = [plan.placement.name for _, plan in jobs if plan.placement.runs_ahead]
        if ahead and len(jobs) > 1:
            raise UsageError(
                f"{ahead[0]} leaves work on the device when its step ends, which the next run's step would pay for: it "
                "cannot take turns step by step; record it alone, in turns with whole runs of the others"
            )
        shares = self._shares(len(jobs))
        for (_, plan), share in zip(jobs, shares, strict=True):
            self.check(plan, share)
        names = [path.name for path, _ in jobs if path is not None]
        with ExitStack() as stack:
            meter = MachineMeter(self.device.pids)
            writers: list[TraceWriter] = []
            runs: list[tuple[LiveRun, PausableClock]] = []
            for (path, plan), share in zip(jobs, shares, strict=True):
                clock = PausableClock(self.device.now_ns)
                recorder = silent(clock)
                if path is not None:
                    others = [name for name in names if name != path.name]
                    manifest = self._manifest(plan, share, {**(details or {}), "in_turns_with": others})
                    writers.append(stack.enter_context(TraceWriter(path, manifest, force=force)))
                    recorder = self._recorder(clock, writers[-1], plan)
                on_clock = partial(_on_clock, clock, self.device)
                worker = self._worker(plan, recorder, share)
                clock.resume()  # queueing takes time too, and its stamps must differ
                runs.append((LiveRun(worker, plan.prompts, self.info.max_tokens, on_clock), clock))
                clock.pause()
            interleave(runs, progress)
            results = [run_.close() for run_, _ in runs]
            kept = (result for result, (path, _) in zip(results, jobs, strict=True) if path is not None)
            for writer, result in zip(writers, kept, strict=True):
                self._close(writer, meter, result)
        return results

    def _recorder(self, now_ns: Callable[[], int], writer: TraceWriter, plan: RunPlan) -> TraceRecorder:
        return TraceRecorder(now_ns, writer, plan.placement, settled=self.spec.sampling.settled)

    def _close(self, writer: TraceWriter, meter: MachineMeter, result: RunResult) -> None:
        use = meter.stop()
        machine = use.to_dict() if use else None
        details = {**writer.manifest.details, "machine": machine, "clock": self.device.clock_facts()}
        writer.close(details=details if result.counters is None else {**details, "policy_counters": result.counters})

    def profile(self, folder: Path, plan: RunPlan, steps: int) -> None:
        """Run the plan's first steps again under the framework's profiler, into a folder; nothing is recorded.

        A run of its own, because a profiler lengthens what it watches. Raises UsageError for fewer than one step.
        """
        if steps < 1:
            raise UsageError(f"{steps} steps to profile; expected 1 or more")
        self.device.start_profile(folder)
        worker = self._worker(plan, Recorder(self.device.now_ns))
        run(worker, plan.prompts, self.info.max_tokens, most_steps=steps)
        self.device.stop_profile()

    def check(self, plan: RunPlan, share: DeviceShare | None = None) -> None:
        """Raise UsageError or CapacityError for a plan that cannot run on its share, before a folder is made."""
        names = [prompt.request_id for prompt in plan.prompts]
        if not names:
            raise UsageError("no prompts to serve; expected one or more")
        if len(set(names)) < len(names):
            raise UsageError("two prompts share a request id; give each its own")
        self._check_rebinds(plan.placement)
        _check_policy(plan.placement)
        if plan.placement.keeps_drafts:
            raise UsageError(
                f"{plan.placement.name}: its prefills draft, and a draft waits for its sequence, which this engine "
                "does not do; replay it, or record static-ahead"
            )
        if plan.placement.splits_on_device and plan.controller.temperatures:
            raise UsageError(
                f"{plan.placement.name}: the split on the device reads the confidence as it is, and the profile has "
                "temperatures for it; give one made without --confidence"
            )
        scheduler = self._scheduler(share or self._whole)
        for prompt in plan.prompts:
            _known(prompt, self.info.vocab_size)
            queue(scheduler, prompt, self.info.max_tokens)

    def _check_rebinds(self, placement: Placement) -> None:
        if placement.rebinds and not self.info.graphs.rebinds:
            raise UsageError(f"{placement.name} binds lengths to graphs, and none here takes them; drop +rebind")
        if self.info.graphs.rebinds and not placement.rebinds:
            raise UsageError(f"graphs of {self.device.name} take lengths from the host: use {placement.name}+rebind")

    @property
    def _whole(self) -> DeviceShare:
        return DeviceShare(self.spec.slots, self.spec.kv_blocks)

    def _shares(self, count: int) -> list[DeviceShare]:
        """Divide slots and KV blocks into equal parts; raises UsageError when there is not one of each for all."""
        slots, blocks = self.spec.slots // count, self.spec.kv_blocks // count
        if not slots or not blocks:
            raise UsageError(f"{self.spec.slots} slots and {self.spec.kv_blocks} KV blocks for {count} runs in turn")
        return [DeviceShare(slots, blocks, index * slots, index * blocks) for index in range(count)]

    def _scheduler(self, share: DeviceShare) -> Scheduler:
        pool = BlockPool(share.kv_blocks, self.spec.block_size, share.first_block)
        return Scheduler(share.slots, pool, self.info.drafts + 1, share.first_slot)

    def _worker(self, plan: RunPlan, recorder: Recorder, share: DeviceShare | None = None) -> Worker:
        block = BlockShape(self.info.drafts, self.info.block_width, self.info.mask_token_id)
        worker = Worker(
            self.device, self._scheduler(share or self._whole), block, plan.placement, plan.controller, recorder
        )
        worker.stop_tokens = frozenset(self.info.eos_token_ids)
        return worker

    def _manifest(self, plan: RunPlan, share: DeviceShare, details: Mapping[str, object]) -> Manifest:
        spec = self.spec
        if self._models is None:
            self._models = {"target": identity(spec.target), "draft": identity(spec.draft)}
        sampling, drawn = asdict(spec.sampling), spec.sampling.settled and not spec.sampling.greedy
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
            concurrency=share.slots,
            placement=plan.placement.to_dict(),
            controller=plan.controller.to_dict(),
            sampling=sampling,
            seed=self.seed,
            prompt_seed=plan.prompt_seed,
            clock=self.device.clock,
            warnings=list(self.warnings),
            details={
                "dtype": spec.dtype,
                "kv_blocks": share.kv_blocks,
                "block_size": spec.block_size,
                **({"npu_layout": spec.npu_layout} if self.device.name == "npu" else {}),
                "executors": dict(self.device.executors),
                "graphs": self.info.graphs.to_dict(),
                **({"attention": self.info.attention} if self.info.attention == "pages" else {}),
                **({"sample_keys": {each.request_id: each.key for each in plan.prompts}} if drawn else {}),
                "closed_loop": not any(prompt.arrival_ns for prompt in plan.prompts),
                "host": {"python": platform.python_version(), "platform": platform.platform()},
                **details,
            },
        )


def _on_clock(clock: PausableClock, device: Device) -> list[WorkTiming]:
    return clock.place(device.timings())


def _check_policy(placement: Placement) -> None:
    """Refuse what only a simulation knows, and a split on the device: this engine's host builds its batches."""
    if placement.rule.needs_truth:
        raise UsageError(f"{placement.name} knows what will be accepted, so it runs in a replay only")
    if placement.splits_for_free:
        raise UsageError(
            f"{placement.name} splits its budget on the device, which this engine does not; run "
            f"this-step@{placement.rule.text}: the same tokens, with the confidence read on the host"
        )


def _known(prompt: Prompt, vocab_size: int) -> None:
    for token in prompt.prompt_ids:
        if not 0 <= token < vocab_size:
            raise UsageError(
                f"request {prompt.request_id}: token id {token} outside 0..{vocab_size - 1}; "
                "encode with this target's tokenizer"
            )

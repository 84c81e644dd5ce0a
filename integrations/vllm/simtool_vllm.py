"""A vLLM plugin that writes a step log (docs/step-log.md): off unless SIMTOOL_STEP_LOG names a file.

vLLM loads it in every process (`vllm.general_plugins`). The scheduler's methods are wrapped for rows and requests,
those of the model runner for host ops, where it runs in the scheduler's process (no tensor or pipeline parallelism) and
steps do not overlap. A wrapped method does what it did: what goes wrong in here is said once and switches the log off.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import time
from typing import Any

from simtool_step_log import StepLog

#: Model runner's method -> the host op that begins with it. What follows it in the table begins when it ends.
RUNNER_OPS = {
    "execute_model": "launch_target",
    "sample_tokens": "launch_verify",
    "propose_draft_token_ids": "launch_draft",
}
RUNNERS = ("vllm.v1.worker.gpu_model_runner", "vllm.v1.worker.gpu.model_runner", "vllm_ascend.worker.model_runner_v1")
RUNNER_CLASSES = ("GPUModelRunner", "NPUModelRunner")
SCHEDULERS = (("vllm.v1.core.sched.scheduler", "Scheduler"),)


def register() -> None:
    """The entry point: wrap what this vLLM has, when a log is asked for."""
    path = os.environ.get("SIMTOOL_STEP_LOG")
    if not path:
        return
    taps = Taps(path)
    for module, name in SCHEDULERS:
        taps.tap_scheduler(getattr(importlib.import_module(module), name))
    for module in RUNNERS:
        try:
            found = importlib.import_module(module)
        except ImportError:
            continue  # this platform has another
        for name in RUNNER_CLASSES:
            if (runner := getattr(found, name, None)) is not None:
                taps.tap_runner(runner)


class Taps:
    """The wrapped methods of one process, and what they have seen. The log begins with the first step."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._log: StepLog | None = None
        self._sl = 0
        self._broken = False
        self._starts: dict[int, int] = {}
        self._drafts: dict[str, list[int]] = {}
        self._ops: list[list[Any]] = []
        self._overlapping = False

    def tap_scheduler(self, scheduler: type) -> None:
        """Rows and requests. Any class with the methods of vLLM's scheduler will do."""
        self._wrap(scheduler, "add_request", after=self._added)
        self._wrap(scheduler, "schedule", before=self._scheduling, after=self._scheduled)
        self._wrap(scheduler, "update_draft_token_ids", before=self._drafted)
        self._wrap(scheduler, "update_from_output", before=self._updating, after=self._updated)

    def tap_runner(self, runner: type) -> None:
        """Host ops, told apart by when the runner's methods begin and end."""
        for method, op in RUNNER_OPS.items():
            if hasattr(runner, method):
                after = "read_tokens" if method == "propose_draft_token_ids" else None
                self._wrap(runner, method, before=self._begins(op), after=self._begins(after) if after else None)

    def close(self) -> None:
        """Write what is left."""
        if self._log is not None:
            self._log.close()

    def _wrap(self, owner: type, name: str, before: Any = None, after: Any = None) -> None:
        inner = getattr(owner, name)

        @functools.wraps(inner)
        def wrapped(instance: Any, *args: Any, **kwargs: Any) -> Any:
            seen = self._try(before, instance, *args, **kwargs)
            result = inner(instance, *args, **kwargs)
            self._try(after, instance, *args, result=result, seen=seen, **kwargs)
            return result

        setattr(owner, name, wrapped)

    def _try(self, tap: Any, *args: Any, **kwargs: Any) -> Any:
        if tap is None or self._broken:
            return None
        try:
            return tap(*args, **kwargs)
        except Exception as error:  # whatever it is: serving goes on, without a log
            self._broken = True
            print(
                f"simtool step log: off ({type(error).__name__}: {error}); is this vLLM a later one?", file=sys.stderr
            )
            return None

    def _begins(self, op: str) -> Any:
        def begins(*_: Any, **__: Any) -> None:
            now = time.monotonic_ns()
            if self._ops:
                self._ops[-1][2] = now
                self._ops.append([op, now, now])

        return begins

    def _added(self, scheduler: Any, request: Any, **_: Any) -> None:
        limit = getattr(request, "max_tokens", None)
        facts = {"prompt_tokens": request.num_prompt_tokens, **({"max_new_tokens": limit} if limit else {})}
        self._opened(scheduler).request(request.request_id, arrival_ns=time.monotonic_ns(), **facts)

    def _scheduling(self, *_: Any, **__: Any) -> int:
        now = time.monotonic_ns()
        self._overlapping = bool(self._starts)  # the step before is not over: it was scheduled ahead
        self._ops = [["schedule", now, now]]
        return now

    def _scheduled(self, _: Any, *__: Any, result: Any, seen: Any, **___: Any) -> None:
        if seen is not None and result.num_scheduled_tokens:
            self._starts[id(result)] = seen

    def _drafted(self, _: Any, draft_token_ids: Any, **__: Any) -> None:
        self._drafts.update(zip(draft_token_ids.req_ids, draft_token_ids.draft_token_ids))  # noqa: B905  # Python 3.9

    def _updating(self, scheduler: Any, scheduler_output: Any, *_: Any, **__: Any) -> list[tuple[Any, int, int]]:
        """The step's requests as they are before it: object, tokens, output tokens."""
        self._begins("finish")()
        found = (scheduler.requests.get(name) for name in scheduler_output.num_scheduled_tokens)
        return [(request, request.num_tokens, request.num_output_tokens) for request in found if request is not None]

    def _updated(self, scheduler: Any, scheduler_output: Any, model_runner_output: Any, **more: Any) -> None:
        start_ns = self._starts.pop(id(scheduler_output), None)
        if start_ns is None or more["seen"] is None:
            return
        log, end_ns = self._opened(scheduler), time.monotonic_ns()
        rows, prefilled, prompts = [], [], []
        for request, tokens, outputs in more["seen"]:
            emitted = request.num_output_tokens - outputs
            if outputs == 0:
                prompts.append((request.request_id, scheduler_output.num_scheduled_tokens[request.request_id]))
                if emitted:
                    prefilled.append(request.request_id)
                    log.request(request.request_id, first_token_ns=end_ns)
            elif emitted:
                rows.append(self._row(request, tokens - 1, emitted, scheduler_output, model_runner_output))
        self._finished(log, [request for request, _, _ in more["seen"]], end_ns)
        if not rows and not prompts:
            return
        ops = [] if self._overlapping else self._ops
        for name, begin_ns, until_ns in ops:
            log.op(name, begin_ns, end_ns if name == "finish" else until_ns)
        if rows:
            log.step(start_ns, end_ns, **_columns(rows), **({"prefilled": prefilled} if prefilled else {}))
        else:
            names, counts = [name for name, _ in prompts], [count for _, count in prompts]
            log.step(start_ns, end_ns, names, kind="prefill", prompt_tokens=counts)

    def _row(self, request: Any, anchor: int, emitted: int, scheduled: Any, output: Any) -> dict[str, Any]:
        name = request.request_id
        offered = len(scheduled.scheduled_spec_decode_tokens.get(name) or ())
        sampled = output.sampled_token_ids[output.req_id_to_index[name]]
        accepted = min(max(len(sampled) - 1, 0), offered)
        block = self._drafts.pop(name, None)
        whole = block is not None and len(block) == self._sl and min(block, default=0) >= 0
        return {
            "request": name,
            "anchor": anchor,
            "prefix_len": offered,
            "accepted": accepted,
            "emitted": min(emitted, accepted + 1),
            "draft_tokens": list(block) if whole and block is not None else None,
        }

    def _finished(self, log: StepLog, requests: list[Any], end_ns: int) -> None:
        for request in requests:
            if request.is_finished():
                facts = {
                    "output_tokens": request.num_output_tokens,
                    "finish_reason": str(request.get_finished_reason()),
                }
                tokens = list(request.output_token_ids)
                log.request(request.request_id, finished_ns=end_ns, output_ids=tokens, **facts)

    def _opened(self, scheduler: Any) -> StepLog:
        if self._log is None:
            self._sl = int(getattr(scheduler, "num_spec_tokens", 0) or 0)
            self._log = StepLog(self._path, engine="vLLM", sl=self._sl, **_header(scheduler.vllm_config))
        return self._log


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    if not any(block is not None for block in columns["draft_tokens"]):
        del columns["draft_tokens"]
    return columns


def _header(config: Any) -> dict[str, Any]:
    """What the configuration says, for the log's first line."""
    import vllm  # noqa: PLC0415  # there where a scheduler is

    speculative = config.speculative_config
    models = {"target": {"id": str(config.model_config.model)}}
    draft = getattr(speculative, "draft_model_config", None)
    if draft is not None:
        models["draft"] = {"id": str(draft.model)}
    return {
        "algorithm": str(getattr(speculative, "method", None) or "none"),
        "engine_version": vllm.__version__,
        "models": models,
        "concurrency": int(config.scheduler_config.max_num_seqs),
        "block_size": int(config.cache_config.block_size),
        "device": {"npu": "npu", "cpu": "cpu"}.get(str(config.device_config.device_type), "cuda"),
        "details": {"async_scheduling": bool(getattr(config.scheduler_config, "async_scheduling", False))},
    }

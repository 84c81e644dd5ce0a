"""Files as a run of vLLM leaves them: a step log with the plugin's host ops, and a profile with CUDA graphs.

Four sequences decode with SL 3 after one prefill. The host launches the target's graph, then the sampler's kernels and
the drafter's, and waits for the tokens. What each costs is known, so that what comes out of the files can be held
against it.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SL, BATCH, STEPS, PROMPT = 3, 4, 60, 12
#: Costs in us: the target's graph has three kernels, and grows with the rows.
TARGET_US, TARGET_ROW_US, VERIFY_US, DRAFT_US, COPY_US = 3000.0, 40.0, 150.0, 600.0, 8.0
HOST_US = {
    "schedule": 120,
    "launch_target": 260,
    "launch_verify": 90,
    "launch_draft": 180,
    "read_tokens": 40,
    "finish": 70,
}
BASE_NS = 1_760_000_000_000_000_000
UNIX_OFFSET_NS = BASE_NS - 5_000_000_000


@dataclass
class Run:
    """Two clocks: the log's (monotonic, ns), and the profile's (us from its base)."""

    now_ns: int = 5_000_000_000
    device_free_ns: int = 0
    correlation: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)

    def slice(self, name: str, category: str, span: tuple[int, int], tid: int, **args: Any) -> None:
        start, end = (t + UNIX_OFFSET_NS - BASE_NS for t in span)
        pid = 0 if category in ("kernel", "gpu_memcpy") else 77
        about = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "args": args}
        self.events.append({**about, "ts": start / 1000, "dur": (end - start) / 1000})

    def launch(self, call: str, kernels: list[tuple[str, float]], category: str = "kernel") -> int:
        """A runtime call now, and its kernels after what the device has to do before; when the last one is done."""
        self.correlation += 1
        self.slice(call, "cuda_runtime", (self.now_ns, self.now_ns + 6_000), 77, correlation=self.correlation)
        at = max(self.device_free_ns, self.now_ns + 10_000)
        for name, us in kernels:
            end = at + round(us * 1000)
            self.slice(name, category, (at, end), 7, correlation=self.correlation, device=0, stream=7)
            at = end
        self.device_free_ns = at
        return at

    def annotate(self, ops: list[list[Any]], step: str) -> None:
        """vLLM's own annotation of the step, and of its parts."""
        self.slice(step, "user_annotation", (ops[1][1], ops[-2][2]), 77)
        for name, start, end, *_ in ops:
            self.slice(RANGES[name], "user_annotation", (start, end), 77)

    def op(self, name: str) -> tuple[int, int]:
        start, self.now_ns = self.now_ns, self.now_ns + HOST_US[name] * 1000
        return start, self.now_ns


#: The ranges that vLLM writes with VLLM_CUSTOM_SCOPES_FOR_PROFILING, by the op that they are.
RANGES = {
    "schedule": "schedule: allocate_slots",
    "launch_target": "gpu_model_runner: forward",
    "launch_verify": "gpu_model_runner: sample",
    "launch_draft": "gpu_model_runner: draft",
    "read_tokens": "gpu_model_runner: bookkeep",
    "finish": "gpu_model_runner: ModelRunnerOutput",
}


def write_run(folder: Path, *, ranges: bool = False, prunes: bool = True) -> tuple[Path, Path]:
    """Write both files, and return the log's and the profile's path.

    ranges: the profile tells the ops, not the log. prunes: some steps verify fewer drafts than there are.
    """
    run, rng = Run(), random.Random(5)
    names = [f"r{i}" for i in range(BATCH)]
    header = {"line": "header", "version": 1, "engine": "vLLM", "engine_version": "0.33.0", "sl": SL}
    header |= {"algorithm": "eagle3", "clock": "monotonic", "unix_offset_ns": UNIX_OFFSET_NS, "temperature": 0}
    run.lines.append({**header, "models": {"target": {"id": "Qwen3-8B"}}})
    limit = 1 + 40 * SL
    for name in names:
        line = {"line": "request", "request": name, "arrival_ns": run.now_ns, "prompt_tokens": PROMPT}
        run.lines.append({**line, "max_new_tokens": limit})
    anchors, emitted = dict.fromkeys(names, PROMPT), dict.fromkeys(names, 1)
    for step in range(STEPS):
        start_ns, rows = run.now_ns, [_row(rng, prunes=prunes) for _ in names] if step else []
        ops: list[list[Any]] = host_step(run, BATCH * PROMPT if not step else sum(p + 1 for p, _ in rows))
        if ranges:
            run.annotate(
                ops, "execute_context_4(48)_generation_0(0)" if not step else "execute_context_0(0)_generation_4(9)"
            )
            ops = []
        line = {"line": "step", "step": step, "start_ns": start_ns, "end_ns": run.now_ns, "request": names, "ops": ops}
        if not step:
            run.lines.append({**line, "kind": "prefill", "prompt_tokens": [PROMPT] * BATCH})
        else:
            columns = {"anchor": list(anchors.values()), "prefix_len": [p for p, _ in rows]}
            columns |= {"accepted": [a for _, a in rows], "emitted": [a + 1 for _, a in rows]}
            run.lines.append({**line, **columns})
            for name, (_, accepted) in zip(names, rows, strict=True):
                anchors[name] += accepted + 1
                emitted[name] += accepted + 1
        run.now_ns += 15_000
    for name in names:
        facts = {"finished_ns": run.lines[-1].get("end_ns", run.now_ns), "finish_reason": "stop"}
        run.lines.append({"line": "request", "request": name, **facts, "output_tokens": emitted[name]})
    log, profile = folder / "vllm.steps.jsonl", folder / "vllm.pt.trace.json"
    log.write_text("".join(json.dumps(line) + "\n" for line in run.lines))
    properties = [{"id": 0, "name": "NVIDIA H200"}]
    whole = {
        "schemaVersion": 1,
        "deviceProperties": properties,
        "baseTimeNanoseconds": BASE_NS,
        "traceEvents": run.events,
    }
    profile.write_text(json.dumps(whole))
    return log, profile


def _row(rng: random.Random, *, prunes: bool) -> tuple[int, int]:
    """Drafts offered and accepted."""
    offered = rng.choice((1, 2, 3, 3)) if prunes else SL
    return offered, min(offered, rng.choice((0, 1, 2, 3)))


def host_step(run: Run, rows: int) -> list[list[Any]]:
    """One step of the host, as the plugin times it."""
    ops: list[list[Any]] = [["schedule", *run.op("schedule"), None, None]]
    third = (TARGET_US + TARGET_ROW_US * rows) / 3
    run.launch("cudaGraphLaunch", [("qkv_gemm", third), ("flash_attn", third), ("mlp_gemm", third)])
    ops.append(["launch_target", *run.op("launch_target"), None, None])
    run.launch("cudaLaunchKernel", [("rejection_sample", VERIFY_US)])
    ops.append(["launch_verify", *run.op("launch_verify"), None, None])
    run.launch("cudaGraphLaunch", [("draft_block", DRAFT_US)])
    ops.append(["launch_draft", *run.op("launch_draft"), None, None])
    start_ns = run.now_ns
    done_ns = run.launch("cudaMemcpyAsync", [("Memcpy DtoH (Device -> Pinned)", COPY_US)], "gpu_memcpy")
    wait = (start_ns + 10_000, max(done_ns, start_ns + 10_000) + 5_000)
    run.slice("cudaEventSynchronize", "cuda_runtime", wait, 77)
    run.now_ns = wait[1]
    run.op("read_tokens")
    ops.append(["read_tokens", start_ns, run.now_ns, None, None])
    ops.append(["finish", *run.op("finish"), None, None])
    return ops

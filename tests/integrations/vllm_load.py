"""A load as docs/bring-your-engine.md has it served: more requests than seats, so that the batch fills, and drains.

Every request drafts 7 tokens a step and verifies them all; how many are right differs between requests and drifts
within one. The profile covers the last part of the log. `python -m tests.integrations.vllm_load PAGE` writes what a
page's commands print of it into the page.
"""

from __future__ import annotations

import gzip
import json
import math
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integrations.vllm_run import BASE_NS, UNIX_OFFSET_NS, Run, host_step

SL, SEATS, REQUESTS = 7, 8, 40
#: Share of the log's steps that the profile leaves out, at its beginning.
_UNPROFILED = 0.5


@dataclass
class _Request:
    name: str
    prompt: int
    limit: int
    ease: float
    emitted: int = 0


def write_load(folder: Path, *, confidence: bool = False) -> tuple[Path, Path]:
    """Write run.steps.jsonl and profiles/rank0.pt.trace.json.gz, and return their paths."""
    run, rng = Run(), random.Random(11)
    header = {"line": "header", "version": 1, "engine": "vLLM", "engine_version": "0.33.0", "sl": SL}
    header |= {"algorithm": "eagle3", "clock": "monotonic", "unix_offset_ns": UNIX_OFFSET_NS, "temperature": 0}
    header |= {"concurrency": SEATS, "block_size": 16, "models": {"target": {"id": "Qwen3-8B"}}}
    run.lines.append(header)
    waiting = [
        _Request(f"r{i:02}", rng.randint(40, 400), rng.randint(60, 160), rng.gauss(0, 1)) for i in range(REQUESTS)
    ]
    for each in waiting:
        line = {"line": "request", "request": each.name, "arrival_ns": run.now_ns, "prompt_tokens": each.prompt}
        run.lines.append({**line, "max_new_tokens": each.limit})
    running: list[_Request] = []
    starts: list[int] = []
    while waiting or running:
        free = SEATS - len(running)
        admitted, waiting = waiting[:free], waiting[free:]
        starts.append(run.now_ns)
        running += admitted
        _step(run, rng, admitted or running, len(starts) - 1, prefill=bool(admitted), confidence=confidence)
        for done in [each for each in running if each.emitted >= each.limit]:
            running.remove(done)
            facts = {"finished_ns": run.now_ns, "finish_reason": "length", "output_tokens": done.emitted}
            run.lines.append({"line": "request", "request": done.name, **facts})
        run.now_ns += 15_000
    return _written(folder, run, starts[int(len(starts) * _UNPROFILED)])


def _step(run: Run, rng: random.Random, batch: list[_Request], number: int, *, prefill: bool, confidence: bool) -> None:
    start_ns, rows = run.now_ns, sum(each.prompt for each in batch) if prefill else len(batch) * (SL + 1)
    line: dict[str, Any] = {"line": "step", "step": number, "request": [each.name for each in batch]}
    if prefill:
        line |= {"kind": "prefill", "prompt_tokens": [each.prompt for each in batch]}
    else:
        drafted = [_drafted(rng, each) for each in batch]
        emitted = [min(right + 1, each.limit - each.emitted) for each, (_, right) in zip(batch, drafted, strict=True)]
        line |= {"anchor": [each.prompt + each.emitted - 1 for each in batch], "prefix_len": [SL] * len(batch)}
        line |= {"accepted": [right for _, right in drafted], "emitted": emitted}
        line |= {"confidence": [chances for chances, _ in drafted]} if confidence else {}
        for each, more in zip(batch, emitted, strict=True):
            each.emitted += more
    ops = host_step(run, rows)
    run.lines.append({**line, "start_ns": start_ns, "end_ns": run.now_ns, "ops": ops})
    if prefill:
        for each in batch:
            each.emitted = 1
            run.lines.append({"line": "request", "request": each.name, "first_token_ns": run.now_ns})


def _drafted(rng: random.Random, request: _Request) -> tuple[list[float], int]:
    """The chance of each draft, given those before it, and how many are right."""
    request.ease = 0.85 * request.ease + 0.53 * rng.gauss(0, 1)
    chances = [0.5 + 0.5 * math.erf((0.2 + 0.1 * k + 0.8 * request.ease) / math.sqrt(2)) for k in range(SL)]
    right = next((k for k, chance in enumerate(chances) if rng.random() >= chance), SL)
    return [round(chance, 4) for chance in chances], right


def _written(folder: Path, run: Run, from_ns: int) -> tuple[Path, Path]:
    log, profile = folder / "run.steps.jsonl", folder / "profiles" / "rank0.pt.trace.json.gz"
    log.write_text("".join(json.dumps(line) + "\n" for line in run.lines))
    profile.parent.mkdir(exist_ok=True)
    from_us = (from_ns + UNIX_OFFSET_NS - BASE_NS) / 1000
    whole = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}],
        "baseTimeNanoseconds": BASE_NS,
        "traceEvents": [event for event in run.events if event["ts"] >= from_us],
    }
    profile.write_bytes(gzip.compress(json.dumps(whole).encode(), mtime=0))
    return log, profile


if __name__ == "__main__":
    import sys
    from tempfile import TemporaryDirectory

    from simtool.cli.documents.transcripts import refreshed

    for name in sys.argv[1:]:
        page = Path(name)
        with TemporaryDirectory() as temporary:
            write_load(Path(temporary))
            page.write_text(refreshed(page.read_text(), Path(temporary)))

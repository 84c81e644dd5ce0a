"""Pairs of models on the plane: those that ship, measured, and published ones, whose autocorrelation nobody tells."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from published_runs.tables import ascend_rows, paper_lengths, sglang_rows, xllm_arms
from simtool.analysis.confidence import autocorrelation
from simtool.calibrate.drafted import blocks_of
from simtool.trace.trace import open_trace


@dataclass(frozen=True)
class Pair:
    """accept_length: of full-width steps, bonus token included. autocorrelation: of the confidence; None: not told."""

    name: str
    accept_length: float
    autocorrelation: float | None


def shipped(traces: Path) -> list[Pair]:
    """Return the pairs whose live recordings ship, judged on what they visited at full width."""
    found = []
    for name in ("sl7-static", "sl16-static"):
        blocks = blocks_of(open_trace(traces / name))
        if blocks is not None:
            length = 1 + float(blocks.match_run.mean())
            found.append(Pair(f"traces/{name}", length, autocorrelation(blocks)))
    return found


def published(folder: Path) -> list[Pair]:
    """Return the pairs of published measurements, by their accept lengths at 7 drafts."""
    found = [
        Pair(f"SGLang 35413, {row.model}", row.verify_all_accept_len, None)
        for row in sglang_rows(folder)
        if row.verify_all_accept_len is not None and row.concurrency == 64
    ]
    found += [
        Pair("vllm-ascend 15098, Qwen3-8B", row.full_accept_len, None) for row in ascend_rows(folder) if row.sl == 7
    ]
    static = next(arm for arm in xllm_arms(folder) if arm.arm == "static" and arm.sl == 7)
    found.append(Pair("xLLM 2280, Qwen3", 1 + static.sl * static.acceptance_rate, None))
    lengths = paper_lengths(folder)
    found += [
        Pair(f"DSpark paper, Qwen3-8B, {data}", lengths["Qwen3-8B", "dspark", data], None)
        for data in ("arena_hard", "gsm8k")
    ]
    return sorted(found, key=lambda pair: pair.accept_length)

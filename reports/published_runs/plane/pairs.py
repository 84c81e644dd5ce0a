"""Pairs of models on the plane: those that ship, measured, and published ones, whose autocorrelation nobody tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from published_runs.tables import SglangRow, ascend_rows, paper_lengths, sglang_rows, xllm_arms, xllm_costs
from published_runs.xllm.machine import SLS, rows_share
from published_runs.xllm.noise import STEP_US
from simtool.analysis.confidence import autocorrelation
from simtool.calibrate.drafted import blocks_of
from simtool.trace.trace import open_trace

_BLOCK = 7


@dataclass(frozen=True)
class CostRatio:
    """What a published source tells of a full-width step. rows: the share that its rows take. says: from what.

    decision: the share that deciding in line takes; None: not told.
    """

    rows: float
    says: str
    decision: float | None = None


@dataclass(frozen=True)
class Pair:
    """accept_length: of full-width steps, bonus token included. autocorrelation: of the confidence; None: not told.

    costs: None: the source gives no two step times whose rows differ.
    """

    name: str
    accept_length: float
    autocorrelation: float | None
    costs: CostRatio | None = None


def shipped(traces: Path) -> list[Pair]:
    """Return the pairs whose live recordings ship, judged on what they visited at full width."""
    found = []
    for name in ("sl7-static", "sl7-t0.6-c32-static", "sl16-static"):
        blocks = blocks_of(open_trace(traces / name))
        if blocks is not None:
            length = 1 + float(blocks.match_run.mean())
            found.append(Pair(f"traces/{name}", length, autocorrelation(blocks)))
    return found


def published(folder: Path) -> list[Pair]:
    """Return the pairs of published measurements, by their accept lengths at 7 drafts."""
    found = [*_sglang(folder), _ascend(folder), _xllm(folder)]
    lengths = paper_lengths(folder)
    found += [
        Pair(f"DSpark paper, Qwen3-8B, {data}", lengths["Qwen3-8B", "dspark", data], None)
        for data in ("arena_hard", "gsm8k")
    ]
    return sorted(found, key=lambda pair: pair.accept_length)


def _sglang(folder: Path) -> list[Pair]:
    by_model: dict[str, list[SglangRow]] = {}
    for row in sglang_rows(folder):
        by_model.setdefault(row.model, []).append(row)
    return [_of_two_loads(model, rows) for model, rows in by_model.items()]


def _of_two_loads(model: str, rows: Sequence[SglangRow]) -> Pair:
    """A step at two loads tells what a sequence takes; its rows are taken to be all of that."""
    rows = sorted(rows, key=lambda row: row.concurrency)
    length = next(row.verify_all_accept_len for row in reversed(rows) if row.verify_all_accept_len)
    loads = [float(row.concurrency) for row in rows]
    steps = [row.concurrency * (row.verify_all_accept_len or length) / row.verify_all_tok_per_s for row in rows]
    says = f"verify-all at {loads[0]:g} and {loads[-1]:g} at once, at the larger"
    return Pair(f"SGLang 35413, {model}", length, None, CostRatio(_growing_share(loads, steps, loads[-1]), says))


def _ascend(folder: Path) -> Pair:
    """Three block lengths at one load tell what a row takes, its draft's with it."""
    rows = ascend_rows(folder)
    widths = [row.sl + 1.0 for row in rows]
    share = _growing_share(widths, [row.full_accept_len / row.full_tok_per_s for row in rows], _BLOCK + 1.0)
    length = next(row.full_accept_len for row in rows if row.sl == _BLOCK)
    says = f"full width at {', '.join(str(row.sl) for row in rows)} drafts, drafting among the rows"
    return Pair("vllm-ascend 15098, Qwen3-8B", length, None, CostRatio(share, says))


def _xllm(folder: Path) -> Pair:
    """Both static arms of run 1, as the replay of the pull request has it, and its decision."""
    arms = {arm.sl: arm for arm in xllm_arms(folder) if arm.arm == "static"}
    few, many = (arms[sl] for sl in SLS)
    share = rows_share((few.tokens_per_s, many.tokens_per_s), (few.acceptance_rate, many.acceptance_rate))
    decision = xllm_costs(folder)["decision", _BLOCK, "this-step"] / STEP_US
    says = "static at 7 and 16 drafts, drafting among the rows; its decision by itself"
    costs = CostRatio(share, says, decision)
    return Pair("xLLM 2280, Qwen3", 1 + few.sl * few.acceptance_rate, None, costs)


def _growing_share(sizes: Sequence[float], steps: Sequence[float], at: float) -> float:
    """Return the share of the step at one size that grows with the size, by the straight line nearest to the steps."""
    slope, constant = np.polyfit(np.array(sizes), np.array(steps), 1).tolist()
    return float(slope * at / (constant + slope * at))

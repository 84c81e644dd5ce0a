"""The published figures, read into records; one function a file of traces/published."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from simtool.errors import UsageError

#: In a checkout: traces/published beside the package.
PUBLISHED = Path(__file__).parents[2] / "traces" / "published"


@dataclass(frozen=True)
class Spread:
    """How far repetitions of one arm are apart, as coefficients of variation: the least and the most that is told."""

    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class XllmArm:
    """One arm of one run. acceptance_rate: accepted over offered drafts. tpot_ms: None where it is not told."""

    run: int
    prompts: int
    sl: int
    arm: str
    tokens_per_s: float
    tpot_ms: float | None
    acceptance_rate: float


@dataclass(frozen=True, kw_only=True)
class SglangRow:
    """Verify-all against a budget. Accept lengths include the bonus token; None where they are not told."""

    model: str
    concurrency: int
    verify_all_tok_per_s: float
    budgeted_tok_per_s: float
    verify_all_accept_len: float | None
    budgeted_accept_len: float | None


@dataclass(frozen=True)
class RocmRow:
    """tok/s without drafts, with a fixed and with an adaptive verify length."""

    concurrency: int
    none: float
    fixed: float
    adaptive: float


@dataclass(frozen=True)
class AscendRow:
    """Full against dynamic verify length."""

    sl: int
    full_tok_per_s: float
    dynamic_tok_per_s: float
    full_accept_len: float
    dynamic_accept_len: float


def xllm_arms(folder: Path) -> list[XllmArm]:
    """Return both runs."""
    return [
        XllmArm(
            run=int(row["run"]),
            prompts=int(row["prompts"]),
            sl=int(row["sl"]),
            arm=row["arm"],
            tokens_per_s=float(row["output_tok_per_s"]),
            tpot_ms=_optional(row["tpot_ms"]),
            acceptance_rate=float(row["acceptance_rate"]),
        )
        for row in _rows(folder, "xllm-2280-throughput.csv")
    ]


def xllm_costs(folder: Path) -> dict[tuple[str, int, str], float]:
    """Return us left on the critical path, by cost (decision, prune-block), SL and arm."""
    rows = _rows(folder, "xllm-2280-critical-path.csv")
    return {(row["cost"], int(row["sl"]), row["arm"]): float(row["us"]) for row in rows}


def sglang_rows(folder: Path) -> list[SglangRow]:
    """Return the rows of SGLang's pull request 35413."""
    return [
        SglangRow(
            model=row["model"],
            concurrency=int(row["concurrency"]),
            verify_all_tok_per_s=float(row["verify_all_tok_per_s"]),
            budgeted_tok_per_s=float(row["budgeted_tok_per_s"]),
            verify_all_accept_len=_optional(row["verify_all_accept_len"]),
            budgeted_accept_len=_optional(row["budgeted_accept_len"]),
        )
        for row in _rows(folder, "sglang-35413.csv")
    ]


def rocm_rows(folder: Path) -> list[RocmRow]:
    """Return the rows of vLLM's pull request 52362."""
    names = ("none_tok_per_s", "fixed_tok_per_s", "adaptive_tok_per_s")
    rows = _rows(folder, "rocm-52362.csv")
    return [RocmRow(int(row["concurrency"]), *(float(row[name]) for name in names)) for row in rows]


def ascend_rows(folder: Path) -> list[AscendRow]:
    """Return the rows of vllm-ascend's pull request 15098, the smallest SL first."""
    names = ("full_tok_per_s", "dynamic_tok_per_s", "full_accept_len", "dynamic_accept_len")
    rows = sorted(_rows(folder, "ascend-15098.csv"), key=lambda row: int(row["sl"]))
    return [AscendRow(int(row["sl"]), *(float(row[name]) for name in names)) for row in rows]


def verify_table(folder: Path) -> dict[int, float]:
    """Return vLLM's verify times in ms, by total tokens, of replayed graphs alone."""
    rows = _rows(folder, "vllm-v4flash-verify.csv")
    return {int(row["total_tokens"]): float(row["verify_ms"]) for row in rows if row["mode"] == "graph"}


def draft_table(folder: Path) -> dict[int, float]:
    """Return vLLM's draft times in ms, by requests."""
    return {int(row["requests"]): float(row["draft_ms"]) for row in _rows(folder, "vllm-v4flash-draft.csv")}


def paper_lengths(folder: Path) -> dict[tuple[str, str, str], float]:
    """Return accept lengths of the DSpark paper, bonus token included, by target, drafter and data set."""
    rows = _rows(folder, "dspark-accept-length.csv")
    return {(row["target"], row["drafter"], row["dataset"]): float(row["accept_len"]) for row in rows}


def drift_windows(folder: Path) -> list[tuple[str, tuple[float, ...], float]]:
    """Return window, cumulative acceptance by position and accept length, in order of time."""
    rows = _rows(folder, "within-run-drift.csv")
    return [
        (row["window_s"], tuple(float(row[f"p{k}"]) for k in range(1, 6)), float(row["accept_len"])) for row in rows
    ]


def spreads(folder: Path) -> dict[str, Spread]:
    """Return what is told of repetitions, by source."""
    return {row["source"]: Spread(float(row["low"]), float(row["high"])) for row in _rows(folder, "spreads.csv")}


def _rows(folder: Path, name: str) -> list[Mapping[str, str]]:
    path = folder / name
    try:
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror}); published figures ship with a checkout"
        ) from error


def _optional(text: str) -> float | None:
    return float(text) if text else None

"""SGLang, ROCm and Ascend: gains of an adaptive verify length, predicted from the arm that does not adapt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from published_runs.budgets import Clock, best, line, rows_for, stairs, tokens_by_budget
from published_runs.prediction import Prediction, gain
from published_runs.tables import (
    AscendRow,
    RocmRow,
    SglangRow,
    ascend_rows,
    draft_table,
    rocm_rows,
    sglang_rows,
    spreads,
    verify_table,
)
from simtool.replay.synthetic.process import constant_acceptance

SGLANG, ROCM, ASCEND = "sgl-project/sglang#35413", "vllm-project/vllm#52362", "vllm-project/vllm-ascend#15098"
_BLOCK = 7
#: Nobody tells how long ROCm's blocks are accepted; SGLang's same model emits 3.56 to 3.58 tokens a step.
_ROCM_LENGTHS = (3.0, 4.0)
V4_FLASH_LENGTH = 3.57
#: Nobody tells the batch. It cancels; how finely a budget is shared out is all that it decides.
_ASCEND_BATCH = 32
#: Of the pair in traces/sl7-static, whose confidence foretells well.
GOOD_SHARPNESS = 0.76
_GIVEN = "the same, given its accept length"


def sglang(folder: Path) -> Iterator[Prediction]:
    """Step time by rows is the line through verify-all at both concurrencies of a model."""
    spread = spreads(folder)[SGLANG]
    by_model: dict[str, list[SglangRow]] = {}
    for row in sglang_rows(folder):
        by_model.setdefault(row.model, []).append(row)
    for model, rows in by_model.items():
        length = next(row.verify_all_accept_len for row in reversed(rows) if row.verify_all_accept_len)
        timed = [((_BLOCK + 1.0) * row.concurrency, _step_ms(row, row.verify_all_accept_len or length)) for row in rows]
        clock = line(timed[0], timed[1])
        for row in rows:
            seen = row.verify_all_accept_len or length
            published = gain(row.budgeted_tok_per_s, row.verify_all_tok_per_s)
            low, high = _bounds(constant_acceptance(_BLOCK, seen), row.concurrency, clock)
            setting = f"{model}, {row.concurrency} at once"
            yield Prediction(
                source=SGLANG,
                setting=setting,
                figure="budgeted over verify-all",
                low=low,
                high=high,
                published=published,
                spread=spread,
            )
            if row.budgeted_accept_len is not None:
                least, most = _at_length(
                    constant_acceptance(_BLOCK, seen), row.budgeted_accept_len, row.concurrency, clock
                )
                yield Prediction(
                    source=SGLANG,
                    setting=setting,
                    figure=_GIVEN,
                    low=least,
                    high=most,
                    published=published,
                    spread=spread,
                )


def rocm(folder: Path) -> Iterator[Prediction]:
    """Step time by rows is the line from no draft to all drafts at the same concurrency."""
    for row in rocm_rows(folder):
        ends = [_rocm_bounds(row, length) for length in _ROCM_LENGTHS]
        yield Prediction(
            source=ROCM,
            setting=f"{row.concurrency} at once",
            figure="adaptive over fixed",
            low=min(low for low, _ in ends),
            high=max(high for _, high in ends),
            published=gain(row.adaptive, row.fixed),
            spread=None,
        )


def rocm_from_vllm(folder: Path) -> Iterator[Prediction]:
    """The same gains from vLLM's cost table of another machine, and no figure of ROCm's."""
    verify, draft = verify_table(folder), draft_table(folder)
    for row in rocm_rows(folder):
        if row.concurrency * (_BLOCK + 1) > max(verify):
            continue
        clock = stairs(verify, draft[row.concurrency])
        low, high = _bounds(constant_acceptance(_BLOCK, V4_FLASH_LENGTH), row.concurrency, clock)
        yield Prediction(
            source=ROCM,
            setting=f"{row.concurrency} at once",
            figure="adaptive over fixed, by vLLM's table of a B300",
            low=low,
            high=high,
            published=gain(row.adaptive, row.fixed),
            spread=None,
        )


def ascend(folder: Path) -> Iterator[Prediction]:
    """Step time by rows is a straight line through the full arms of three SLs, acceptance what they differ by."""
    rows = ascend_rows(folder)
    clock = _fitted([(_ASCEND_BATCH * (row.sl + 1.0), row.full_accept_len / row.full_tok_per_s) for row in rows])
    for place, row in enumerate(rows):
        acceptance = _by_position(rows[: place + 1])
        low, high = _bounds(acceptance, _ASCEND_BATCH, clock)
        published = gain(row.dynamic_tok_per_s, row.full_tok_per_s)
        setting = f"SL {row.sl}"
        yield Prediction(
            source=ASCEND,
            setting=setting,
            figure="dynamic over full",
            low=low,
            high=high,
            published=published,
            spread=None,
        )
        least, most = _at_length(acceptance, row.dynamic_accept_len, _ASCEND_BATCH, clock)
        yield Prediction(
            source=ASCEND,
            setting=setting,
            figure=_GIVEN,
            low=least,
            high=most,
            published=published,
            spread=None,
        )


def _step_ms(row: SglangRow, accept_len: float) -> float:
    return row.concurrency * accept_len / row.verify_all_tok_per_s * 1000


def _bounds(acceptance: tuple[float, ...], batch: int, clock: Clock) -> tuple[float, float]:
    """The best budget's gain over all drafts: with a confidence that knows the position alone, and all outcomes."""
    full_rows = batch * (len(acceptance) + 1)
    full = batch * (1 + sum(acceptance)) / clock(full_rows)
    low, high = (best(tokens_by_budget(acceptance, batch, sharpness), batch, clock).rate for sharpness in (0.0, 1.0))
    return _floor(low / full - 1), _floor(high / full - 1)


def _at_length(acceptance: tuple[float, ...], length: float, batch: int, clock: Clock) -> tuple[float, float]:
    """The gain of the budget that leaves this accept length: with drafts cut by position, and by a good confidence."""
    full = batch * (1 + sum(acceptance)) / clock(batch * (len(acceptance) + 1))
    blind, good = (
        batch * length / clock(rows_for(tokens_by_budget(acceptance, batch, sharpness), batch, batch * length)) / full
        - 1
        for sharpness in (0.0, GOOD_SHARPNESS)
    )
    return min(blind, good), max(blind, good)


def _floor(share: float) -> float:
    """No gain is none, not one below by rounding."""
    return 0.0 if abs(share) < 1e-9 else share


def _rocm_bounds(row: RocmRow, length: float) -> tuple[float, float]:
    rows = float(row.concurrency)
    clock = line((rows, rows / row.none * 1000), ((_BLOCK + 1) * rows, rows * length / row.fixed * 1000))
    return _bounds(constant_acceptance(_BLOCK, length), row.concurrency, clock)


def _fitted(points: Sequence[tuple[float, float]]) -> Clock:
    """The straight line of least squares."""
    mean_x, mean_y = (sum(point[axis] for point in points) / len(points) for axis in (0, 1))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return lambda rows: mean_y + slope * (rows - mean_x)


def _by_position(rows: Sequence[AscendRow]) -> tuple[float, ...]:
    """Acceptance by position of the largest SL: alike within each stretch that an SL adds, as the lengths have it.

    The first stretch falls geometrically, since that is what the shortest block tells alone.
    """
    first = rows[0]
    found = list(constant_acceptance(first.sl, first.full_accept_len))
    for before, row in pairwise(rows):
        share = (row.full_accept_len - before.full_accept_len) / (row.sl - before.sl)
        found += [min(share, found[-1])] * (row.sl - before.sl)
    return tuple(found)

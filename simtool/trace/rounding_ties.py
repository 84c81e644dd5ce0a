"""Two greedy runs that should agree and do not: a tie that rounding decides either way, or a fault of logic?

Batches of other shapes round logits in other places. A choice between two tokens flips only where the gap between
their logits is no wider than what rounding moves it; where it is wider, something else is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import polars as pl

from simtool.trace.trace import Trace

#: The widest gap, in logits, that rounding may close. In units of the dtype's spacing at 1: 512 in float32 and float64,
#: whose error grows through the layers, 32 in 16 bits, whose products are summed in float32. Measured on the first
#: target that shipped (logits up to 18, 896 positions, whole sequences against token by token): gaps moved by at most
#: 124 and 16.
TIE_WIDTH: Mapping[str, float] = MappingProxyType(
    {"float64": 512 * 2.0**-52, "float32": 512 * 2.0**-23, "float16": 32 * 2.0**-10, "bfloat16": 32 * 2.0**-7}
)


@dataclass(frozen=True)
class Choice:
    """A token that the target chose: its request, and its 0-based index in prompt + output."""

    request_id: str
    position: int


@dataclass(frozen=True)
class Judgement:
    """Why two runs differ, as the end of a sentence. tie: rounding explains it, so neither is at fault."""

    text: str
    tie: bool = False

    def __str__(self) -> str:
        return self.text


def target_gap(trace: Trace, choice: Choice) -> float | None:
    """Gap between the target's two likeliest logits at a choice; None: not kept, or past the output's end."""
    found = trace.table("requests").filter(pl.col("request_id") == choice.request_id)
    for prompt_tokens, margins in found.select("prompt_tokens", "output_margin").iter_rows():
        place = choice.position - prompt_tokens
        if margins is not None and 0 <= place < len(margins):
            return float(margins[place])
    return None


def judge_target(one: Trace, other: Trace, choice: Choice) -> Judgement:
    """Say how narrow the target's choice was where two runs chose different tokens, and what follows.

    The gap has closed and opened again the other way round: rounding has to cover both runs' gaps together.
    """
    return _flip([target_gap(trace, choice) for trace in (one, other)], choice, one, other)


def judge_flip(trace: Trace, choice: Choice, gap: float) -> Judgement:
    """Say the same of a run's token where its target, asked again, chose another by this gap."""
    flip = _flip([target_gap(trace, choice), gap], choice, trace)
    return Judgement(f"{choice.request_id}, {flip}", flip.tie)


def judge_draft(one: Trace, other: Trace, choice: Choice, anchor: int) -> Judgement:
    """Say how narrow the drafter's choices were where two runs matched other drafts against the same target tokens.

    choice: where the shorter match ended. anchor: of the block; its filled outcome in `other` tells the drafter's gap.
    """
    at_anchor = (pl.col("request_id") == choice.request_id) & (pl.col("anchor_position") == anchor)
    margins = other.table("outcomes").filter(at_anchor)["draft_margin"].drop_nulls()
    gap = float(margins[0]) if len(margins) else None
    targets = _both([target_gap(trace, choice) for trace in (one, other)])
    agrees = f"the target agrees at position {choice.position} (logits gap {targets})"
    return _judged(f"{agrees}, so the drafts differ, logits gap {_number(gap)}", gap, one, other)


def judge_decision(one: Trace, other: Trace, step: int) -> Judgement:
    """Say how far the confidence that two runs decided a step on lies apart, and what follows.

    The same controller on the same numbers decides the same; on numbers that rounding moved, a near tie may tip.
    """
    apart = _confidence_apart(one, other, step)
    if apart == 0.0:
        return Judgement("the decision differs on equal confidence: not a tie: a logic fault")
    if apart is None:
        unknown = "a tie cannot be told from a logic fault"
        return Judgement(f"the decision differs, and one of the two kept no confidence: {unknown}")
    return _judged(f"the decision differs, on confidence at most {_number(apart)} apart", apart, one, other)


def _confidence_apart(one: Trace, other: Trace, step: int) -> float | None:
    """Largest difference between what two runs decided a step on; None where either kept none of it.

    A lag of L decides on the confidence of a request's L-th row before; a request without one is not decided on.
    """
    steps = (one.manifest.placement or {}).get("lag_steps")
    lag = steps if isinstance(steps, int) else 0
    key = ["request_id", "anchor_position"]
    used = [
        trace.table("rows")
        .filter(pl.col("step") <= step)
        .sort("step", descending=True)
        .filter(pl.int_range(pl.len()).over("request_id") == lag)
        .select(*key, "confidence")
        for trace in (one, other)
    ]
    both = used[0].join(used[1], on=key, suffix="_other").drop_nulls().explode("confidence", "confidence_other")
    largest = both.select((pl.col("confidence") - pl.col("confidence_other")).abs().max()).item()
    return None if largest is None else float(largest)


def _flip(gaps: list[float | None], choice: Choice, *traces: Trace) -> Judgement:
    known = [gap for gap in gaps if gap is not None]
    closed = sum(known) if known else None
    return _judged(f"logits gap at position {choice.position}: {_both(gaps)}", closed, *traces)


def _judged(found: str, gap: float | None, *traces: Trace) -> Judgement:
    dtypes = [trace.manifest.run.dtype for trace in traces]
    known = [dtype for dtype in dtypes if dtype is not None and dtype in TIE_WIDTH]
    if gap is None or not known:
        return Judgement(f"{found}: a tie cannot be told from a logic fault without the gap and the dtype")
    dtype = max(known, key=TIE_WIDTH.__getitem__)
    if gap <= TIE_WIDTH[dtype]:
        return Judgement(f"{found}: a tie within {dtype} rounding ({TIE_WIDTH[dtype]:.1e})", tie=True)
    return Judgement(f"{found}: not a tie: a logic fault")


def _both(gaps: list[float | None]) -> str:
    return " and ".join(map(_number, gaps))


def _number(gap: float | None) -> str:
    return "not recorded" if gap is None else f"{gap:.2g}"

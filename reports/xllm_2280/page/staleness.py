"""Lag beyond one, and the rebinding of lengths in NPU graph mode."""

from __future__ import annotations

from collections.abc import Sequence

from simtool.analysis.staleness import ALL, Staleness
from simtool.units import format_ns
from xllm_2280.answers import TraceAnswers
from xllm_2280.load import Load
from xllm_2280.page.markdown import percent, share, table
from xllm_2280.rebinding import REBIND_US


def lag_beyond_one(answers: Sequence[TraceAnswers]) -> str:
    """Acceptance lost against the lag, by kind and position, and the autocorrelation."""
    effects = [(each.load, effect) for each in answers for effect in each.effects]
    rows = [
        (
            effect.kind,
            str(sl),
            str(effect.lag),
            f"{effect.acceptance_length:.3f}",
            "-" if effect.acceptance_rate is None else f"{effect.acceptance_rate:.3f}",
            f"{effect.unfresh / effect.sequence_steps:.1%}",
            share(effect.loss),
        )
        for sl, effect in effects
    ]
    heads = (
        "prompts",
        "SL",
        "lag",
        "acceptance length",
        "acceptance rate",
        "not fresh",
        "emitted length lost against lag 0",
    )
    unfresh = (
        "Not fresh: steps verified at full width because no confidence of that age is there yet, `lag` of them a "
        "request. They offer every draft, so on short outputs they hide part of what a longer lag costs.\n"
    )
    return "\n".join((table(heads, rows), unfresh, _by_position(effects), _persistence(answers)))


def rebinding(answers: Sequence[TraceAnswers]) -> str:
    """Price the target's rebinding in the overlap window."""
    rows = [
        (
            each.placement,
            str(answer.load),
            str(each.concurrency),
            each.place,
            format_ns(each.step_ns),
            percent(each.gain),
        )
        for answer in answers
        for each in answer.rebound
    ]
    heads = (
        "placement",
        "SL",
        "concurrency",
        "the target's lengths are rebound",
        "step",
        "over lag-overlap, after the fill",
    )
    return (
        f"In graph mode every captured attention op gets its new host lengths before a replay: {REBIND_US} us for 20 "
        "layers at batch 1 (public figure, vllm-ascend issue 13058). The target's lengths depend on prefix lengths "
        "only, so they can be rebound with the build. A host that runs ahead hides either while the draft outlasts it; "
        "this-step pays all of it. The draft's rebinding, which no placement can move, is left "
        f"out.\n\n{table(heads, rows)}"
    )


def _by_position(effects: Sequence[tuple[Load, Staleness]]) -> str:
    rows = [
        (f"SL {sl}, lag {effect.lag}", *(f"{count / effect.sequence_steps:.3f}" for count in effect.accepted_at[:8]))
        for sl, effect in effects
        if effect.kind == ALL
    ]
    longest = max(len(row) for row in rows) - 1
    padded = [(*row, *("" for _ in range(longest + 1 - len(row)))) for row in rows]
    heads = ("sequence-steps that accept draft", *(str(k) for k in range(1, longest + 1)))
    return table(heads, padded)


def _persistence(answers: Sequence[TraceAnswers]) -> str:
    rows = [
        (
            f"SL {answer.load}, {each.distance} apart",
            str(each.pairs),
            _number(each.correlation),
            " ".join(_number(value) for value in each.auc[:4]),
        )
        for answer in answers
        for each in answer.persistence
    ]
    heads = (
        "blocks of a request",
        "pairs",
        "correlation of expected accepted drafts",
        "AUC of the older, drafts 1 to 4",
    )
    return table(heads, rows)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"

"""Acceptance loss as an axis of its own: who wins as decisions on old confidence are made to lose more."""

from __future__ import annotations

from collections.abc import Sequence

from xllm_2280.answers import TraceAnswers
from xllm_2280.losses import LossAxis, LossPoint
from xllm_2280.page.markdown import percent, share, table


def loss_axis(answers: Sequence[TraceAnswers]) -> str:
    """The axis at every point of the map, beside what the step times say that a lag can afford."""
    rows = [_row(axis) for each in answers for axis in each.losses]
    losses = [point.stale_loss for point in answers[0].losses[0].points]
    heads = (
        "machine", "SL", "concurrency", "best lag placement", "can afford to lose",
        *(f"{loss:.0%} taken: in all it loses, leads by" for loss in losses),
    )  # fmt: skip
    return f"{_HOW}\n\n{_verdict(answers)}\n\n{table(heads, rows)}"


_HOW = (
    "A what-if on top of what the outcomes say: every decision on old confidence loses a share of its accepted drafts. "
    "The accepted drafts of such a sequence-step are multiplied by 1 less the share and rounded to whole drafts, up or "
    "down by a random number that belongs to the request and the anchor: the mean falls by that share, and the same "
    "anchor loses alike under every order and on every machine. Rows verified at full width for want of confidence "
    "lose nothing, batches stay as wide as they were, and the request needs more steps for the same tokens. this-step "
    "and static decide on nothing old. *In all it loses*: tokens per step against this-step, what it lost anyway "
    "included. *Leads by*: tokens/s over the better of this-step and static; bold where the interval leaves out zero. "
    "*Can afford to lose*: from the step times alone; where the loss in all passes it, the lead should change its sign."
)


def _row(axis: LossAxis) -> tuple[str, ...]:
    region = axis.region
    points = tuple(_cell(point) for point in axis.points)
    where = (region.profile, str(region.load), str(region.concurrency))
    return (*where, region.lagged, share(region.affordable), *points)


def _cell(point: LossPoint) -> str:
    lead = percent(point.lead)
    return f"{point.lost.mean:+.1%}: {f'**{lead}**' if point.lead.resolved else lead}"


def _verdict(answers: Sequence[TraceAnswers]) -> str:
    """Count, at each step of the axis, where the lag placement leads, where it trails, and where nothing is told."""
    axes = [axis for each in answers for axis in each.losses]
    parts = []
    for points in zip(*(axis.points for axis in axes), strict=True):
        ahead, behind, untold = _counts(points)
        parts.append(f"{points[0].stale_loss:.0%} taken: ahead {ahead}, behind {behind}, a tie {untold}")
    return (
        f"Where the best lag placement leads the better of this-step and static, of {len(axes)} settings: "
        f"{'; '.join(parts)}."
    )


def in_short(answers: Sequence[TraceAnswers]) -> str:
    """The same where nothing is taken, for one sentence: by the very counts of the table."""
    points = [point for each in answers for axis in each.losses for point in axis.points if not point.stale_loss]
    ahead, behind, untold = _counts(points)
    return (
        f"the best placement with a lag is ahead of the better of static and this-step in {ahead}, behind in {behind}, "
        f"level in {untold}"
    )


def _counts(points: Sequence[LossPoint]) -> tuple[int, int, int]:
    """At how many points it is ahead, behind, and at how many neither can be told."""
    ahead = sum(point.lead.resolved and point.lead.ratio > 1 for point in points)
    behind = sum(point.lead.resolved and point.lead.ratio < 1 for point in points)
    return ahead, behind, len(points) - ahead - behind

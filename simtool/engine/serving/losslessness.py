"""When sampling leaves the target's distribution untouched, and when a decision may bias it (docs/losslessness.md).

Rejection sampling is exact for whatever is offered, as long as *how much* is offered does not depend on the very
drafts that are judged. A decision on older confidence cannot depend on them. A decision on this step's may. Where
drafts only have to match a token that none of them can change, no decision can bias it.
"""

from __future__ import annotations

from simtool.engine.runner.spec import RunnerInfo, SamplingConfig
from simtool.step.controller import ControllerSettings
from simtool.step.placement import Placement
from simtool.step.policies.xllm import XllmController


def sampling_bias(
    placement: Placement, controller: ControllerSettings, sampling: SamplingConfig, info: RunnerInfo
) -> str | None:
    """Return why the output may not follow the target's distribution, or None when it does."""
    if sampling.settled or placement.lag_steps is None:
        return None
    biased = f"{placement.name} at temperature {sampling.temperature:g} can bias the output: "
    remedy = "; take a lag placement or static for samples of the target"
    if placement.policy is not None and not isinstance(placement.policy, XllmController):
        why = placement.policy.why_biased(confidence_head=info.confidence_head)
        return None if why is None else f"{biased}{why}{remedy}"
    if 0 not in placement.rule.ages:
        return None
    if not info.confidence_head:
        return f"{biased}this drafter's confidence is the probability of the very token it drafted{remedy}"
    if controller.min_gain > 0:
        return (
            f"{biased}with min_gain a prefix may be refused for its first drafts and taken for its later ones{remedy}"
        )
    return None

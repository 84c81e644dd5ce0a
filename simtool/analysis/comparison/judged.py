"""Live comparisons that were made before, of the very models of a trace: those of docs/fidelity.md and its like."""

from __future__ import annotations

from collections.abc import Sequence

from simtool.analysis.comparison.comparison import Comparison, Over
from simtool.analysis.comparison.headline import BASELINE, HEADLINE
from simtool.analysis.comparison.order import Order
from simtool.profile.judged_live import JudgedArm, JudgedSetting, judged_setting
from simtool.profile.profile import Profile
from simtool.stats.interval import Interval
from simtool.step.placement import BUILT_IN, Placement
from simtool.trace.trace import Trace


def judged_for(source: Trace, profile: Profile, concurrency: int) -> JudgedSetting | None:
    """Return what live runs of a trace's models showed at a concurrency, on the machine of the profile; None: nothing.

    Judged were greedy runs with the controller as xLLM has it, which knows no draft time.
    """
    manifest = source.manifest
    found = judged_setting(manifest.algorithm, manifest.sl, concurrency, manifest.models, profile.device_name)
    plain = not manifest.controller.get("draft_ms") and not manifest.controller.get("min_gain")
    greedy = manifest.sampling.get("temperature") in (0, 0.0)
    return found if plain and greedy else None


def judged_comparisons(setting: JudgedSetting, candidates: Sequence[Placement]) -> list[Comparison]:
    """Return the live comparison with static of each candidate that was judged, in the candidates' order."""
    arms = {arm.placement: arm for arm in setting.arms}
    asked = [placement for placement in candidates if placement == BUILT_IN.get(placement.name)]
    return [_comparison(setting, arms[placement.name]) for placement in asked if placement.name in arms]


def _comparison(setting: JudgedSetting, arm: JudgedArm) -> Comparison:
    ends = (1 + arm.live - arm.half, 1 + arm.live + arm.half)
    method = f"Student's t on {setting.repetitions} repetitions in turns ({setting.page})"
    return Comparison(
        metric=HEADLINE,
        baseline=BASELINE,
        other=arm.placement,
        found=Interval(1 + arm.live, *ends, method=method),
        repetitions=setting.repetitions,
        needed=None,
        drifts=True,
        over=Over.RUNS,
        order=Order.IN_TURNS,
    )

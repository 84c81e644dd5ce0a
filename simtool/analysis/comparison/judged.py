"""Live comparisons that were made before, of the very models of a trace: those of docs/fidelity.md and its like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from simtool.analysis.comparison.comparison import Comparison, Over
from simtool.analysis.comparison.headline import BASELINE, HEADLINE
from simtool.analysis.comparison.order import Order
from simtool.profile.judged_live import JudgedArm, JudgedSetting, judged_settings
from simtool.profile.profile import Profile
from simtool.stats.interval import Interval
from simtool.step.controller import ControllerSettings
from simtool.step.placement import Placement, resolve_placement
from simtool.trace.trace import Trace


@dataclass(frozen=True)
class KnownLive:
    """What live runs showed in the setting of a replay. comparisons: with static, of each candidate that was judged.

    elsewhere: the machine of the runs, where it is another than that of the replay's costs; else empty.
    """

    setting: JudgedSetting
    comparisons: tuple[Comparison, ...]
    elsewhere: str = ""

    def contradicts(self, modeled: Mapping[str, float]) -> bool:
        """Whether a difference that was told live has another sign in replays. modeled: placement -> over static."""
        return any(
            (each.ratio > 1) != (modeled[each.other] > 1)
            for each in self.comparisons
            if each.resolved and each.other in modeled
        )


def known_live(
    source: Trace, profile: Profile, concurrency: int, controller: ControllerSettings, candidates: Sequence[Placement]
) -> KnownLive | None:
    """Return what live runs of a trace's models showed at a concurrency, of most of the candidates; None: nothing.

    Judged were greedy runs. Those whose controller timed the verify itself, as xLLM's does, count on the machine of the
    profile; those whose controller was told costs count where the replay's is told the same, on whatever machine. Of
    two that know as many candidates the former are taken.
    Nobody ran costs that a what-if changed.
    """
    setting = _setting_of(source, profile, concurrency, controller, candidates)
    if setting is None or not (arms := _judged_of(setting, candidates)):
        return None
    elsewhere = "" if setting.device_name == profile.device_name else setting.device_name
    return KnownLive(setting, tuple(_comparison(setting, arm) for arm in arms), elsewhere)


def _setting_of(
    source: Trace, profile: Profile, concurrency: int, controller: ControllerSettings, candidates: Sequence[Placement]
) -> JudgedSetting | None:
    manifest = source.manifest
    if manifest.sampling.get("temperature") not in (0, 0.0) or controller.min_gain or controller.temperatures:
        return None
    if profile.provenance.changes:
        return None
    found = [
        setting
        for setting in judged_settings(manifest.algorithm, manifest.sl, concurrency, manifest.models)
        if _alike(setting, profile, controller)
    ]
    return max(found, key=lambda each: (len(_judged_of(each, candidates)), each.told is None), default=None)


def _alike(setting: JudgedSetting, profile: Profile, controller: ControllerSettings) -> bool:
    if setting.told is None:
        return setting.device_name == profile.device_name and not controller.draft_ms
    mine = asdict(controller.predictor) if controller.predictor else {}
    return (mine, controller.draft_ms) == (dict(setting.told.predictor), setting.told.draft_ms)


def _judged_of(setting: JudgedSetting, candidates: Sequence[Placement]) -> list[JudgedArm]:
    """The arms of candidates, in their order; one of the same name and another order was not judged."""
    arms = {arm.placement: arm for arm in setting.arms}
    return [
        arms[placement.name]
        for placement in candidates
        if placement.name in arms and placement == resolve_placement(placement.name)
    ]


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

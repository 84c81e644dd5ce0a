"""Costs in whole ns: the profile's expectation, and when asked the noise that its fits left over.

Noise is a block bootstrap with common random numbers. The draw is keyed by the seed and by the work itself (request
and anchor), not by when or in which placement it runs, so that placements differ in their order and not in what
they drew. One draw picks the same point of the recording for every op: a slow spell of the machine slows them together.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from simtool.errors import ProfileError
from simtool.profile.cost import Cost
from simtool.profile.profile import HostCost, Profile, WorkCost
from simtool.replay.caveats import Beyond
from simtool.replay.keyed_rng import uniform
from simtool.replay.scenario import NoiseMode
from simtool.replay.step_planner import StepPlan
from simtool.step.placement import BUILT_IN

_NO_PAST: Mapping[str, float] = MappingProxyType({})
_BLOCK_TOKENS = 32  # anchors that share one draw: their residuals are consecutive ones of the recording


class CostSampler:
    """Costs of a step's parts, and a memory of what was priced outside the calibrated sizes."""

    def __init__(self, profile: Profile, noise: NoiseMode, seed: int) -> None:
        self.profile = profile
        self._farthest: dict[tuple[str, str], Beyond] = {}
        self._noisy, self._seed = noise == "residual", seed

    def host(self, kind: str, name: str) -> HostCost:
        """Return the costs of a host op; raises ProfileError when the profile has none."""
        costs = self.profile.steps(kind).host
        if name not in costs:
            raise self._missing(kind, name)
        return costs[name]

    def work(self, kind: str, name: str, op: str) -> WorkCost:
        """Return the costs of device work that `op` launches; raises ProfileError when the profile has none."""
        costs = self.profile.steps(kind).device
        if name not in costs:
            raise self._missing(kind, op)
        return costs[name]

    def ns(self, name: str, cost: Cost, plan: StepPlan, past: Mapping[str, float] = _NO_PAST) -> int:
        """Return a duration of `name` in this step, never below zero. past: features of what ran just before."""
        return max(0, self.offset_ns(name, cost, plan, past))

    def offset_ns(self, name: str, cost: Cost, plan: StepPlan, past: Mapping[str, float] = _NO_PAST) -> int:
        """Return a distance in time, which may be negative."""
        for feature in cost.outside(plan.features):
            self._note(Beyond(name, feature, plan.features[feature], *cost.ranges[feature]))
        return round(cost.predict({**plan.features, **past}) + self._residual(cost, plan.key))

    @property
    def extrapolated(self) -> tuple[Beyond, ...]:
        """What was priced outside the calibrated sizes, each at the size farthest out."""
        return tuple(self._farthest.values())

    def _note(self, found: Beyond) -> None:
        known = self._farthest.get((found.name, found.feature))
        if known is None or found.excess > known.excess:
            self._farthest[found.name, found.feature] = found

    def _residual(self, cost: Cost, key: tuple[str, int]) -> int:
        residuals = cost.residuals_ns
        if not self._noisy or not residuals:
            return 0
        request_id, anchor = key
        block, place = divmod(anchor, _BLOCK_TOKENS)
        start = int(uniform(self._seed, request_id, block) * len(residuals))
        return residuals[(start + place) % len(residuals)]

    def _missing(self, kind: str, op: str) -> ProfileError:
        if not self.profile.steps(kind).host:
            return ProfileError(
                f"profile {self.profile.name} has no host costs of {kind} steps: the recordings that it was fitted on "
                f"hold no {kind} step with host events; take a profile of one that does (record or import it whole, "
                "simtool calibrate, --profile)"
            )
        if kind == "prefill":
            return ProfileError(
                f"profile {self.profile.name} has no cost of {op!r} in a prefill step, which every placement runs; "
                "pool a recording into it whose prefill steps have that event"
            )
        runs = [p.name for p in BUILT_IN.values() if any(op in str(slot).split("|") for slot in p.order)]
        pool = f"pool a recording of {' or '.join(runs)} into it" if runs else "pool a recording that runs it into it"
        return ProfileError(f"profile {self.profile.name} has no cost of {op!r} in a {kind} step; {pool}")

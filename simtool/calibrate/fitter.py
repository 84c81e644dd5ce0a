"""From observations to the costs of a kind of step: which observations tell each cost, and what it grows with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simtool.calibrate.bootstrap import Resample
from simtool.calibrate.idle_effects import shared_slope, told_apart
from simtool.calibrate.observations import Observations, Table
from simtool.calibrate.observed import Observed, joined
from simtool.calibrate.regression import fit_cost
from simtool.profile.cost import FREE, Cost
from simtool.profile.profile import HostCost, StepCosts, WorkCost
from simtool.step.idle_effects import DEVICE_IDLE, HOST_IDLE
from simtool.step.ops import CATALOGUE, DeviceWork, Lane, Op, priced_op

#: Observations below which a constant is taken from a wider group, and a line is called scarce.
ENOUGH = 30
_WORKS: dict[str, DeviceWork] = {work.name: work for op in CATALOGUE.values() for work in op.works}


@dataclass(frozen=True)
class SharedQueue:
    """Distances behind earlier work, by kind of step and work, less what the length of that costs: slope_ns."""

    table: Table
    slope_ns: float

    @classmethod
    def of(cls, queue: Table) -> SharedQueue:
        """Take apart what was observed."""
        slope = shared_slope(queue.values(), DEVICE_IDLE)
        return cls({key: seen.without(DEVICE_IDLE, slope) for key, seen in queue.items()}, slope)


@dataclass(frozen=True)
class Fitter:
    """Fits costs to observations, and again to each resample."""

    resamples: Sequence[Resample]

    def cost(self, observed: Observed | None, features: Sequence[str] = ()) -> Cost:
        """Return the cost; free when nothing was observed."""
        return fit_cost(observed, features, self.resamples) if observed else FREE

    def steps(self, seen: Observations, queued: SharedQueue, kind: str) -> StepCosts:
        """Return the costs of prefill or decode steps."""
        host = {op: self._host(seen, kind, priced_op(op)) for seen_kind, op in seen.pre if seen_kind == kind}
        device = {
            work: WorkCost(
                self._duration(_WORKS[work], values),
                self._constant(queued.table, (kind, work), (kind,)).growing(DEVICE_IDLE, queued.slope_ns),
            )
            for (seen_kind, work), values in seen.duration.items()
            if seen_kind == kind
        }
        return StepCosts(host, device)

    def _after(self, observed: Observed, features: Sequence[str], past: str) -> Cost:
        """The cost, with what ran before among its features where the recordings tell what that does."""
        return self.cost(observed, (*features, past) if told_apart(observed, features, past) else features)

    def _duration(self, work: DeviceWork, observed: Observed) -> Cost:
        """Uploads and copies are slow after long work of another kind; kernels are too long for it to show."""
        if work.lane is Lane.COMPUTE:
            return self.cost(observed, work.features)
        return self._after(observed, work.features, DEVICE_IDLE)

    def _host(self, seen: Observations, kind: str, op: Op) -> HostCost:
        key = (kind, op.priced_as)
        launches = {work.name: self._constant(seen.launch, (*key, work.name), key, (kind,)) for work in op.works}
        pre = self._after(seen.pre[key], op.features, HOST_IDLE)
        if not op.blocks:
            return HostCost(pre, launches=launches)
        post = self.cost(seen.post.get(key), op.features)
        return HostCost(pre, post, self._constant(seen.wake, key, (kind,)), launches)

    def _constant(self, table: Table, *keys: tuple[str, ...]) -> Cost:
        """The cost under the first key prefix with observations enough, else the last with any; free when none.

        A device is rarely idle when some work is launched: what one stray observation says must not outvote the others.
        """
        found: Observed | None = None
        for prefix in keys:
            found = joined(values for key, values in table.items() if key[: len(prefix)] == prefix)
            if found is not None and len(found) >= ENOUGH:
                break
        return self.cost(found)

"""The pull request's three claims, as differences in step time between placements of one lag.

At one lag every order makes the same decisions, so two replays run the same steps with the same tokens: their
difference in step time is the whole difference, and it is paired step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simtool.stats.interval import Interval
from simtool.stats.student import mean_interval
from simtool.step.cost_features import DecodeShape
from simtool.step.idle_effects import HOST_IDLE
from simtool.study.runner import Cell
from xllm_2280.machines import StudiedMachine
from xllm_2280.regions import Region


@dataclass(frozen=True)
class Hoist:
    """Claim (a): lag-overlap against lag-overlap-late. cost: what the hoist adds to the step; decide_ns: its own."""

    region: Region
    cost: Interval
    decide_ns: float

    @property
    def share(self) -> float:
        """How much of the decision's own time the step pays for having it above the draft launch."""
        return self.cost.mean / self.decide_ns


@dataclass(frozen=True)
class Fill:
    """Claim (b): lag-overlap-late against lag-overlap-index. cost: added by building the index lists early."""

    region: Region
    cost: Interval


@dataclass(frozen=True)
class Chain:
    """Claim (c): lag-overlap's step against lag's, and the three moves between them; negative: the step got shorter.

    no_waste: the dense batch that a prune throws away is not built. overlap: the build stands before launch_sample.
    hoist: the decision stands above the draft launch.
    """

    region: Region
    total: Interval
    no_waste: Interval
    overlap: Interval
    hoist: Interval


def hoist_cost(region: Region, machine: StudiedMachine) -> Hoist:
    """Answer claim (a) at one point."""
    batch = region.concurrency
    shape = DecodeShape(
        num_speculative_tokens=region.sl,
        block_width=region.sl,
        kv_lens=[0] * batch,
        prefix_lens=[region.sl] * batch,
        emitted=[1] * batch,
    )
    decide_ns = machine.profile.decode.host["decide"].pre.predict({**shape.features(), HOST_IDLE: 0.0})
    return Hoist(region, _difference(region, "lag-overlap-late", "lag-overlap"), decide_ns)


def fill_cost(region: Region) -> Fill:
    """Answer claim (b) at one point."""
    return Fill(region, _difference(region, "lag-overlap-late", "lag-overlap-index"))


def overlap_chain(region: Region) -> Chain:
    """Answer claim (c) at one point."""
    return Chain(
        region=region,
        total=_difference(region, "lag", "lag-overlap"),
        no_waste=_difference(region, "lag", "lag-in-place"),
        overlap=_difference(region, "lag-in-place", "lag-overlap-late"),
        hoist=_difference(region, "lag-overlap-late", "lag-overlap"),
    )


def _difference(region: Region, first: str, second: str) -> Interval:
    """Return by how much the second placement's full step is longer, in ns."""
    one, other = region.cells_of(first), region.cells_of(second)
    if len(one) > 1:
        return mean_interval([b.step_ns - a.step_ns for a, b in zip(one, other, strict=True)], draws=region.refitted)
    return mean_interval(_stepwise(one[0], other[0]))


def _stepwise(one: Cell, other: Cell) -> Sequence[float]:
    return [float(step) for step in other.run.duration_ns - one.run.duration_ns]

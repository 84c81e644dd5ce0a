"""What any placement that prunes could give at most, for a run whose costs or confidences tell no placement apart.

The oracle knows what will be accepted and decides for nothing, so no controller beats it at these costs. What a row
costs must be known for that; where the run never varied its rows, the most that it can be is taken and said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.comparison import Comparison
from simtool.profile.absorbed import with_op
from simtool.profile.cost import Cost
from simtool.profile.profile import Profile
from simtool.replay.caveats import Caveats
from simtool.step.placement import BUILT_IN, VLLM_ARMS, Placement, with_policy
from simtool.step.policies.fixed_budget import FixedBudget
from simtool.step.policies.oracle import KnowsMatchRuns
from simtool.study.advice import Change, changes_of
from simtool.study.runner import Progress, Setting, arm_of, caveats_of, mean, run_cells, silent
from simtool.trace.importers.recorded_order import prunes
from simtool.trace.trace import Trace

#: Stages that `bound` reports to `progress`.
STAGES = 3
#: Fixed budgets that are tried at most.
_MOST_LENGTHS = 7
#: Of a target whose rows never varied: what it would grow with, and what it may no longer grow with besides.
_ROWS, _SEQUENCES = "target_rows", ("batch", "ragged")


class RowCost(StrEnum):
    """How what a verified row costs is known."""

    FITTED = "fitted"  # some steps verified less than all
    OF_SEQUENCES = "of_sequences"  # batches differed: a row's and a sequence's share are one, and count as the rows'
    UNKNOWN = "unknown"  # all steps verified as many: all of the target's time counts as the rows'


@dataclass(frozen=True)
class Bound:
    """baseline: the order that ran. oracle: it against that. step_ns: the baseline's mean full step.

    rows: how a row's cost is known. fixed: (drafts of each sequence, comparison) where every step verifies so many.
    changes: host ops that are worth most, free, in the order that ran.
    """

    baseline: str
    oracle: Comparison
    step_ns: float
    rows: RowCost
    fixed: tuple[tuple[int, Comparison], ...]
    changes: tuple[Change, ...]
    caveats: Caveats

    @property
    def gain(self) -> float:
        """The most, as a share of the baseline's tokens/s."""
        return max(self.oracle.ratio - 1, 0.0)

    @property
    def saved_ns(self) -> float:
        """What a step of as many tokens would be shorter by."""
        return self.step_ns * (1 - 1 / (1 + self.gain))

    @property
    def best_fixed(self) -> tuple[int, Comparison] | None:
        """The fixed budget that gives most; None where none is told to give more than verifying all."""
        ahead = [each for each in self.fixed if each[1].resolved and each[1].ratio > 1]
        return max(ahead, key=lambda each: each[1].ratio, default=None)


def bound(setting: Setting, order: Placement, *, processes: int = 1, progress: Progress = silent) -> Bound:
    """Replay the order that ran, the oracle in it, and fixed budgets, without noise.

    Raises ProfileError when the costs lack an op of the order itself.
    """
    deciding = VLLM_ARMS["vllm/this-step"] if order.keeps_drafts else BUILT_IN["lag-overlap-late"]
    costs, rows = _rows_at_most(setting.profile, setting.source)
    quiet = replace(setting, profile=_deciding_for_nothing(costs, deciding), seeds=())
    drafts = setting.source.manifest.sl
    lengths = sorted({int(k) for k in np.linspace(1, drafts - 1, min(_MOST_LENGTHS, drafts - 1)).round()})
    tried = [with_policy(deciding, policy) for policy in (KnowsMatchRuns(), *(_fixed(k, drafts) for k in lengths))]
    progress(1)
    cells = run_cells([(quiet, placement) for placement in (order, *tried)], processes=processes)
    base = arm_of(cells[0])
    oracle, *fixed = [compare(base, arm_of(each)) for each in cells[1:]]
    progress(2)
    changes = changes_of(replace(setting, seeds=()), order, processes)
    progress(3)
    return Bound(
        baseline=order.name,
        oracle=oracle,
        step_ns=mean(cells[0], lambda cell: cell.step_ns),
        rows=rows,
        fixed=tuple(zip(lengths, fixed, strict=True)),
        changes=changes,
        caveats=caveats_of([*cells[0], *cells[1]]),
    )


def _fixed(length: int, drafts: int) -> FixedBudget:
    """So many drafts a sequence; a hair more, for the share is cut to whole drafts."""
    return FixedBudget(share=min((length + 1e-6) / drafts, 1.0))


def _deciding_for_nothing(profile: Profile, placement: Placement) -> Profile:
    """The profile in which what the run did not do is free: deciding, its confidence, and a pruned batch."""
    decode = profile.decode
    for op in sorted(placement.ever_runs(), key=lambda op: op.name):
        if op.name not in decode.host:
            decode = with_op(decode, op)
    return replace(profile, decode=decode)


def _rows_at_most(profile: Profile, source: Trace) -> tuple[Profile, RowCost]:
    """The profile in which a row of the target costs the most that the run allows, and how that is known."""
    if prunes(source) or "target" not in profile.decode.device:
        return profile, RowCost.FITTED
    target = profile.decode.device["target"]
    low, high = target.duration.ranges.get(_ROWS, (0.0, 0.0))
    known = RowCost.OF_SEQUENCES if high > low else RowCost.UNKNOWN
    width = source.manifest.sl + 1
    duration = _of_sequences(target.duration, width) if high > low else _in_proportion(target.duration, high)
    device = {**profile.decode.device, "target": replace(target, duration=duration)}
    return replace(profile, decode=replace(profile.decode, device=device)), known


def _of_sequences(cost: Cost, width: int) -> Cost:
    """The cost whose growth with the batch is its rows': every sequence had as many."""
    moved = sum(cost.per_feature_ns.get(name, 0.0) for name in _SEQUENCES[:1]) / width
    slopes = {name: slope for name, slope in cost.per_feature_ns.items() if name not in _SEQUENCES}
    return replace(cost, per_feature_ns={**slopes, _ROWS: slopes.get(_ROWS, 0.0) + moved}, refits=())


def _in_proportion(cost: Cost, rows: float) -> Cost:
    """The cost that is all its rows'; rows: of every step it was fitted on."""
    whole = cost.quality.mean_ns if cost.quality else cost.intercept_ns
    return replace(cost, intercept_ns=0.0, per_feature_ns={_ROWS: whole / max(rows, 1.0)}, refits=())

"""A step short enough to work out: every host op 10 ns but a decision of 100; draft 100, sample 20, target 200."""

from __future__ import annotations

import dataclasses

from simtool.step.controller import LinearPredictor
from simtool.study.runner import Setting
from tests.replay.synthetic import Asked, Work, constant_costs, profile_of, source_trace

COSTS = constant_costs(pre=10, host_decide=100, device_draft=100, device_sample=20, device_target=200, device_verify=10)


def setting(path, costs=COSTS, drafts=2):
    """One request whose drafts never match; a row costs so much that every decided step prunes to nothing."""
    outcomes = {("a", anchor): ([0.0] * drafts, 0) for anchor in range(4, 10)}
    source = source_trace(path / "source", Work(drafts, (Asked("a", 4, 6, 6),), outcomes), concurrency=1)
    profile = dataclasses.replace(profile_of(costs), predictor=LinearPredictor(0.0, 1.0, 0.0))
    return Setting(source, profile, 1)

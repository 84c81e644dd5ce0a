"""A cost that grows with another feature than the one it was fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from simtool.profile.cost import Cost, Line

_Value = TypeVar("_Value")


def renamed(cost: Cost, feature: tuple[str, str] | None) -> Cost:
    """Return the cost with one feature called by another name, in its slopes, ranges and refits.

    feature: the old name and the new one; None: the cost as it is.
    """
    if feature is None:
        return cost
    old, new = feature

    def other(by_feature: Mapping[str, _Value]) -> dict[str, _Value]:
        return {new if name == old else name: value for name, value in by_feature.items()}

    refits = tuple(Line(line.intercept_ns, other(line.per_feature_ns)) for line in cost.refits)
    return replace(cost, per_feature_ns=other(cost.per_feature_ns), ranges=other(cost.ranges), refits=refits)

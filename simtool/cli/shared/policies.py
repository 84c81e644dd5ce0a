"""What --policy names, for every command that takes it."""

from __future__ import annotations

from collections.abc import Sequence

from simtool.errors import UsageError
from simtool.step.placement import PULL_REQUEST_ARMS, Placement, resolve_placement

#: Stands for the four arms of the pull request.
ALL = "all"


def placements(policies: Sequence[str]) -> list[Placement]:
    """Resolve names, files and "all", each placement once.

    Raises UsageError for one that was given twice, but by "all" and by name, or under two orders of one name.
    """
    twice = sorted({policy for policy in policies if policies.count(policy) > 1})
    if twice:
        raise UsageError(f"--policy {twice[0]} is given twice; give each placement once")
    names = [name for policy in policies for name in (PULL_REQUEST_ARMS if policy == ALL else (policy,))]
    found = [resolve_placement(name) for name in dict.fromkeys(names)]
    if len({placement.name for placement in found}) < len(found):
        raise UsageError("two placements have the same name; give each file its own `name`")
    return found

"""How the placements of one `simtool replay` differ, in the words and by the rules of `simtool compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from simtool.cli.shared import console

if TYPE_CHECKING:
    from simtool.analysis.comparison.runs import Run
    from simtool.analysis.comparison.verdict import Verdict


def differences_of(runs: Mapping[str, Sequence[Run]]) -> Verdict | None:
    """Return every placement against the headline's baseline; None where there is nothing to compare.

    runs: by placement, one a seed.
    """
    from simtool.analysis.comparison.arms import Arm
    from simtool.analysis.comparison.verdict import verdicts

    if len(runs) < 2 or not all(len(run.tokens) for found in runs.values() for run in found):
        return None
    arms = [
        Arm(label=name, placement=name, origin="modeled", runs=tuple(found), traces=()) for name, found in runs.items()
    ]
    return verdicts(arms)[0]


def print_differences(verdict: Verdict) -> None:
    """Print a sentence for every placement but the baseline."""
    for comparison in verdict.comparisons:
        console.say(f"modeled: {comparison.verdict}")


def differences_json(verdict: Verdict | None) -> dict[str, object]:
    """Return each other placement's difference, by its name."""
    return {each.other: each.to_dict() for each in verdict.comparisons} if verdict else {}

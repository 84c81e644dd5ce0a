"""Which of the pull request's differences its own noise can tell, and with how many runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from published_runs.prediction import Prediction, gain
from published_runs.tables import spreads, xllm_arms, xllm_costs
from published_runs.xllm.gains import PAIRS, XLLM
from simtool.stats.power import unpaired_repetitions

#: A pruned step, from the pull request: its 873 us are 2.2 % of one.
STEP_US = 873 / 0.022


@dataclass(frozen=True)
class Resolution:
    """A difference, as a share. runs: of each arm that tell it four times in five, at the least spread that is told and
    at the most; None: over 1,000. alone: whether one run of each arm would tell it at either.
    """

    what: str
    difference: float
    runs: tuple[int | None, int | None]
    alone: tuple[bool, bool]


def resolutions(folder: Path) -> list[Resolution]:
    """Return every difference that is published, and what the measured costs could come to at the most."""
    seen = {(arm.run, arm.sl, arm.arm): arm.tokens_per_s for arm in xllm_arms(folder)}
    found = [
        _resolve(folder, f"run {run}, SL {sl}: {arm} over {base}", gain(seen[run, sl, arm], seen[run, sl, base]))
        for run, pairs in PAIRS.items()
        for sl in sorted({key[1] for key in seen})
        for arm, base in pairs
    ]
    return [*found, *(_resolve(folder, what, share) for what, share in at_most(folder))]


def at_most(folder: Path) -> list[tuple[str, float]]:
    """Return the gains that the measured costs would be if all of each were on the critical path."""
    costs = xllm_costs(folder)
    found = []
    for sl in (7, 16):
        decision = costs["decision", sl, "this-step"] - costs["decision", sl, "lag"]
        build = costs["prune-block", sl, "lag"] - costs["prune-block", sl, "lag-overlap"]
        found.append((f"SL {sl}: the {decision:.0f} us of the decision, all exposed", _saved(decision)))
        found.append((f"SL {sl}: the {build:.0f} us of the build, all exposed", _saved(build)))
    return found


def _saved(us: float) -> float:
    return STEP_US / (STEP_US - us) - 1


def _resolve(folder: Path, what: str, difference: float) -> Resolution:
    spread = spreads(folder)[XLLM]
    low, high = (
        unpaired_repetitions(difference, (each, each * (1 + difference))) for each in (spread.low, spread.high)
    )
    single = Prediction(source=XLLM, setting="", figure=what, low=0.0, high=0.0, published=difference, spread=spread)
    first, second = (not _holds_zero(single.interval(each)) for each in (spread.low, spread.high))
    return Resolution(what, difference, (low, high), (first, second))


def _holds_zero(ends: tuple[float, float]) -> bool:
    return ends[0] <= 0 <= ends[1]

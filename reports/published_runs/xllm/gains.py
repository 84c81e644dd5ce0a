"""The gains of both runs, replayed: the pull request's costs and the static arms' acceptance, all else assumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from published_runs.prediction import Prediction, gain
from published_runs.tables import XllmArm, spreads, xllm_arms
from published_runs.xllm.machine import (
    CONCURRENCY,
    SLS,
    TEXTS,
    Text,
    figures_profile,
    rows_share,
    traffic,
    with_rows_share,
)
from simtool.profile.profile import Profile
from simtool.step.placement import XLLM_ARMS
from simtool.study.runner import Cell, Setting, run_cells

XLLM = "xLLM-AI/xllm#2280"
#: What each run compares: the arm, and what it is held against.
PAIRS = {
    1: (("this-step", "static"), ("lag", "static"), ("lag", "this-step")),
    2: (("lag", "this-step"), ("lag-overlap", "lag"), ("lag-overlap", "this-step")),
}
_ARMS = ("static", "this-step", "lag", "lag-overlap")
_SEEDS = (0, 1)


@dataclass(frozen=True)
class Replayed:
    """Whole-run tok/s and acceptance rate of each arm, at one text on one machine, mean over draws of the traffic."""

    tokens_per_s: Mapping[str, float]
    acceptance_rate: Mapping[str, float]


def machines(folder: Path, profiles: Path) -> dict[str, Profile]:
    """Return the machine as its figures have it, and with the time of a row that the static arms tell."""
    as_figured = figures_profile(profiles)
    static = {arm.sl: arm for arm in xllm_arms(folder) if arm.arm == "static"}
    seven, sixteen = (static[sl] for sl in SLS)
    share = rows_share((seven.tokens_per_s, sixteen.tokens_per_s), (seven.acceptance_rate, sixteen.acceptance_rate))
    return {each.name: each for each in (as_figured, with_rows_share(as_figured, share))}


def replayed(folder: Path, profiles: Path) -> dict[tuple[int, int], list[Replayed]]:
    """Return what each run and SL comes to, at every corner of what is assumed."""
    arms = xllm_arms(folder)
    static = {arm.sl: arm.acceptance_rate for arm in arms if arm.arm == "static"}
    prompts = {arm.run: arm.prompts for arm in arms}
    corners = list(product(machines(folder, profiles).values(), TEXTS))
    return {
        (run, sl): [_replay(sl, static[sl], profile, text, prompts[run]) for profile, text in corners]
        for run, sl in product(prompts, SLS)
    }


def predictions(folder: Path, found: Mapping[tuple[int, int], list[Replayed]]) -> Iterator[Prediction]:
    """Yield every gain that the runs publish, and every adaptive arm's acceptance rate."""
    spread = spreads(folder)[XLLM]
    seen = {(arm.run, arm.sl, arm.arm): arm for arm in xllm_arms(folder)}
    for (run, sl), corners in found.items():
        setting = f"run {run}, SL {sl}"
        for arm, base in PAIRS[run]:
            gains = [gain(each.tokens_per_s[arm], each.tokens_per_s[base]) for each in corners]
            yield Prediction(
                source=XLLM,
                setting=setting,
                figure=f"{arm} over {base}",
                low=min(gains),
                high=max(gains),
                published=gain(seen[run, sl, arm].tokens_per_s, seen[run, sl, base].tokens_per_s),
                spread=spread,
            )
        for key, arm_seen in seen.items():
            if key[:2] == (run, sl) and arm_seen.arm != "static":
                yield _rate(arm_seen, setting, [each.acceptance_rate[arm_seen.arm] for each in corners])


def _rate(arm: XllmArm, setting: str, rates: list[float]) -> Prediction:
    return Prediction(
        source=XLLM,
        setting=setting,
        figure=f"acceptance rate of {arm.arm}",
        low=min(rates),
        high=max(rates),
        published=arm.acceptance_rate,
        spread=None,
        gain=False,
    )


def _replay(sl: int, rate: float, profile: Profile, text: Text, requests: int) -> Replayed:
    sources = [traffic(sl, rate, text, profile, requests, seed) for seed in _SEEDS]
    jobs = [
        (Setting(source, profile, CONCURRENCY), XLLM_ARMS[f"xllm-2280/{arm}"]) for source in sources for arm in _ARMS
    ]
    cells = [each[0] for each in run_cells(jobs)]
    by_arm = {arm: cells[place :: len(_ARMS)] for place, arm in enumerate(_ARMS)}
    return Replayed(
        {arm: sum(cell.whole_run_tokens_per_s for cell in each) for arm, each in by_arm.items()},
        {arm: _accepted(each) for arm, each in by_arm.items()},
    )


def _accepted(cells: list[Cell]) -> float:
    return sum(cell.accepted for cell in cells) / max(1, sum(cell.offered for cell in cells))

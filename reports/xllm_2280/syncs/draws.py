"""Assumed is not published: the questions answered under many draws of the assumed figures, and what turns the answers.

The draws are a scrambled Sobol design over the logarithms of the ranges that the figures are given in their file, so
that a few hundred cover two dozen dimensions evenly. A draw is not a probability: a count of yes tells how much of the
box of assumptions says yes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.stats import qmc

from simtool.profile.published import AssumedFigure, assumed_figures, constructed_profile
from simtool.study.runner import Progress, Setting, run_cells, silent
from xllm_2280.syncs.questions import NEEDED, QUESTIONS, CellFigures, Question, effect, holds
from xllm_2280.syncs.variants import BY_KEY

_PREFILL = {"build_prefill", "launch_prefill", "prefill"}
_FEWEST = 0.02  # of the draws on either side of a threshold


@dataclass(frozen=True)
class Turn:
    """How one assumption sways one answer.

    rank: |Spearman| of figure and effect. threshold_us: where this figure alone tells the answer best; above: whether
    it is yes above. told: share of the draws that it tells right; None: all draws give one answer.
    """

    figure: AssumedFigure
    rank: float
    threshold_us: float
    above: bool
    told: float | None


@dataclass(frozen=True)
class DrawnAnswer:
    """One question over the draws. at_assumed: the effect with every figure as assumed. effects: [draws]."""

    question: Question
    at_assumed: float
    effects: NDArray[np.float64]
    turns: tuple[Turn, ...]

    @property
    def yes(self) -> int:
        """How many draws say yes."""
        return sum(holds(self.question, share) for share in self.effects.tolist())


def drawn_figures(path: Path) -> list[AssumedFigure]:
    """Return the assumed figures that a decode step pays for."""
    return [figure for figure in assumed_figures(path) if figure.name not in _PREFILL | {"loop_gap"}]


def factors(figures: Sequence[AssumedFigure], power: int, seed: int) -> NDArray[np.float64]:
    """Return 2^power draws of a factor for each figure: [draws, figures], even in the logarithm."""
    unit = qmc.Sobol(len(figures), rng=seed).random_base2(power)
    low, high = (np.log([getattr(figure, end) for figure in figures]) for end in ("low", "high"))
    drawn: NDArray[np.float64] = np.exp(low + unit * (high - low))
    return drawn


def answer_draws(
    setting: Setting,
    path: Path,
    *,
    power: int,
    seed: int = 0,
    processes: int,
    progress: Progress = silent,
) -> list[DrawnAnswer]:
    """Answer every question under 2^power draws; setting: on the figures of that file as assumed, without noise."""
    figures = drawn_figures(path)
    drawn = factors(figures, power, seed)
    profiles = [setting.profile]
    for row in drawn:
        by_name = {figure.name: float(factor) for figure, factor in zip(figures, row, strict=True)}
        profiles.append(constructed_profile(path, setting.profile.provenance.created, by_name))
    jobs = [
        (BY_KEY[key].under(replace(setting, profile=profile)), BY_KEY[key].placement)
        for profile in profiles
        for key in NEEDED
    ]
    cells = run_cells(jobs, processes=processes, progress=progress)
    found = [CellFigures.of(each) for each in cells]
    by_draw = [dict(zip(NEEDED, found[i : i + len(NEEDED)], strict=True)) for i in range(0, len(found), len(NEEDED))]
    return [_answer(question, by_draw, figures, drawn) for question in QUESTIONS]


def _answer(
    question: Question,
    by_draw: Sequence[dict[str, CellFigures]],
    figures: Sequence[AssumedFigure],
    drawn: NDArray[np.float64],
) -> DrawnAnswer:
    effects = np.array([effect(question, each) for each in by_draw])
    turns = [_turn(question, figure, drawn[:, i], effects[1:]) for i, figure in enumerate(figures)]
    turns.sort(key=lambda turn: -turn.rank)
    return DrawnAnswer(question, float(effects[0]), effects[1:], tuple(turns))


def _turn(question: Question, figure: AssumedFigure, drawn: NDArray[np.float64], effects: NDArray[np.float64]) -> Turn:
    rho = float(stats.spearmanr(drawn, effects).statistic)
    yes = np.array([holds(question, share) for share in effects.tolist()])
    if yes.all() or not yes.any():
        return Turn(figure, rank=abs(rho), threshold_us=0.0, above=rho > 0, told=None)
    order = np.argsort(drawn)
    sorted_yes, count = yes[order], len(yes)
    below = np.cumsum(sorted_yes)  # yes among the first k + 1
    k = np.arange(1, count + 1)
    right_if_above = (k - below) + (below[-1] - below)  # no below, yes above
    right = np.maximum(right_if_above, count - right_if_above)
    inside = slice(int(_FEWEST * count), count - max(1, int(_FEWEST * count)))
    best = int(np.argmax(right[inside])) + inside.start
    return Turn(
        figure,
        rank=abs(rho),
        threshold_us=figure.us * float(drawn[order[best : best + 2]].mean()),
        above=bool(right_if_above[best] * 2 >= count),
        told=float(right[best] / count),
    )

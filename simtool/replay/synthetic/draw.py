"""Drawing a request: the ease of its steps, and what is drafted at each of its anchors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.signal import lfilter

from simtool.replay.synthetic.solve import Shape

Reals = NDArray[np.float64]
_LEAST = 2.0**-54


@dataclass(frozen=True)
class DrawnBlocks:
    """A block an anchor. confidence: [anchors, N]. match_run: [anchors]. full_width: whether a run that verifies every
    draft would stop there: those anchors are the process that was stated, the others lie between two of them.
    """

    confidence: NDArray[np.float32]
    match_run: NDArray[np.int32]
    full_width: NDArray[np.bool_]


def generator(seed: int, request: int) -> np.random.Generator:
    """Return the source of chance of one request: the same whatever other requests there are."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, request], np.uint64)))


def draw_blocks(shape: Shape, anchors: int, chance: np.random.Generator) -> DrawnBlocks:
    """Draw the block of every anchor of one request; anchors 0 and more.

    The clock of the ease is a full-width run: a step each, and the anchors within a step's accepted drafts lie on the
    Gaussian bridge between it and the next, by the share of its tokens that they have behind them.
    """
    ease, runs = _full_width_steps(shape, anchors, chance)
    starts = np.cumsum(runs + 1) - runs - 1
    steps = int((starts < anchors).sum())
    ease, runs, starts = ease[: steps + 1], runs[:steps], starts[:steps]
    between = _bridge(shape.correlation, ease, runs, starts, _normal(chance, (anchors,)))
    match_run = _match_runs(shape.chances(between), chance)
    match_run[starts] = runs
    full_width = np.zeros(anchors, np.bool_)
    full_width[starts] = True
    return DrawnBlocks(shape.confidence(between).astype(np.float32), match_run, full_width)


def _normal(chance: np.random.Generator, size: tuple[int, ...]) -> Reals:
    return np.asarray(special.ndtri(np.maximum(chance.random(size), _LEAST)), np.float64)


def _full_width_steps(shape: Shape, anchors: int, chance: np.random.Generator) -> tuple[Reals, NDArray[np.int32]]:
    """Ease and accepted drafts of as many steps as a request could take, and the ease of one more."""
    noise = _normal(chance, (anchors + 1,))
    noise *= np.sqrt(1 - shape.correlation**2)
    noise[0] += shape.correlation * shape.ease_before(float(chance.random()))
    ease = np.asarray(lfilter([1.0], [1.0, -shape.correlation], noise), np.float64)
    return ease, _match_runs(shape.chances(ease[:-1]), chance)


def _match_runs(chances: Reals, chance: np.random.Generator) -> NDArray[np.int32]:
    """How many drafts from the first on are accepted: [rows], from their chances: [rows, N]."""
    accepted = chance.random(chances.shape) < chances
    return np.asarray(np.cumprod(accepted, axis=1, dtype=np.int32).sum(axis=1), np.int32)


def _bridge(correlation: float, ease: Reals, runs: NDArray[np.int32], starts: NDArray[np.int32], noise: Reals) -> Reals:
    """The ease at every anchor: [anchors]. ease: of each step and of the one after the last."""
    found = np.zeros(len(noise))
    found[starts] = ease[:-1]
    here, after, length = ease[:-1].copy(), ease[1:], runs + 1.0
    for behind in range(1, int(runs.max(initial=0)) + 1):
        inside = (runs >= behind) & (starts + behind < len(noise))
        step, rest = correlation ** (1 / length[inside]), correlation ** (1 - behind / length[inside])
        denominator = 1 - (step * rest) ** 2
        mean = (step * (1 - rest**2) * here[inside] + rest * (1 - step**2) * after[inside]) / denominator
        spread = np.sqrt((1 - step**2) * (1 - rest**2) / denominator)
        here[inside] = mean + spread * noise[starts[inside] + behind]
        found[starts[inside] + behind] = here[inside]
    return found

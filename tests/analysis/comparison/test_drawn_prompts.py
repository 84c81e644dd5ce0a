"""One run each, on prompts drawn anew: the interval of the ratio holds what the ratio is over all prompts."""

import math

import numpy as np
import pytest

from simtool.analysis.comparison.arms import Arm
from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.runs import Run

SL, SLOTS, TOKENS = 7, 8, 60
REPLICATIONS = 300


def _serve(rng: np.random.Generator, requests: int) -> tuple[Run, Run]:
    """Two placements serve the same drawn requests in a closed loop; the second offers hard prompts a short prefix.

    A prompt has an ease of its own, and the block at an anchor matches alike under both.
    """
    ease = rng.beta(4, 2, requests)
    match = (np.cumprod(rng.random((requests, TOKENS, SL)) < ease[:, None, None], axis=2)).sum(axis=2)
    return _run(match, np.full(requests, SL)), _run(match, np.where(ease > 0.6, SL, 3))


def _run(match: np.ndarray, prefix: np.ndarray) -> Run:
    waiting, running = list(range(len(match)))[::-1], {}
    tokens, duration = [], []
    while True:
        while waiting and len(running) < SLOTS:
            running[waiting.pop()] = 0
        if len(running) < SLOTS:
            break
        width = sum(prefix[i] + 1 for i in running)
        emitted = {i: min(min(prefix[i], match[i, at]) + 1, TOKENS - at) for i, at in running.items()}
        tokens.append(sum(emitted.values()))
        duration.append(1_000_000 + 20_000 * width)
        running = {i: at + emitted[i] for i, at in running.items() if at + emitted[i] < TOKENS}
    durations = np.array(duration, np.int64)
    return Run("drawn", np.array(tokens, np.int64), durations, "w", cycles=len(match) / SLOTS)


@pytest.fixture(scope="module")
def truth() -> float:
    rng = np.random.default_rng(0)
    slow, fast = _serve(rng, 20_000)
    return float(np.log(fast.tokens.sum() / fast.duration_ns.sum() * slow.duration_ns.sum() / slow.tokens.sum()))


def test_two_batches_of_prompts_tell_nothing():
    arms = [Arm(n, n, "modeled", (run,), ()) for n, run in zip("ab", _serve(np.random.default_rng(2), 16), strict=True)]
    found = compare(arms[0], arms[1]).found
    assert found.bounds is None


def test_drawn_prompts_are_covered(truth):
    rng = np.random.default_rng(1)
    given = covered = 0
    for _ in range(REPLICATIONS):
        arms = [Arm(name, name, "modeled", (run,), ()) for name, run in zip("ab", _serve(rng, 64), strict=True)]
        found = compare(arms[0], arms[1]).found
        given += found.bounds is not None
        covered += found.contains(math.exp(truth))
    assert given > 0.9 * REPLICATIONS
    slack = 3 * math.sqrt(0.05 * 0.95 / given)
    assert 0.93 - slack < covered / given < 0.97 + slack

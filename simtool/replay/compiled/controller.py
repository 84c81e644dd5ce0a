"""The controller of `step/controller.py` over arrays. Both are held equal, choice by choice, by their tests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simtool.replay.compiled.kernel import kernel, part
from simtool.step.controller import MIN_MS, SLACK, ControllerSettings

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: As it is stored, or at temperatures; kernels are compiled for each.
Confidence = NDArray[np.float32] | NDArray[np.float64]

#: Where a draft's level begins in its number, below which its sequence stands.
_LEVEL = 32
_SEQUENCE = (1 << _LEVEL) - 1


class Rules(NamedTuple):
    """A controller's settings as numbers; times in ms. predicts: there is a predictor, whose terms follow."""

    predicts: bool
    intercept_ms: float
    token_ms: float
    prefix_ms: float
    draft_ms: float
    gain: float


class Bench(NamedTuple):
    """Room to decide in, [sequences] each. paths: [sequences, N] probability that the whole prefix is accepted.

    kv_lens: tokens. pending: tokens that drafts seen since add to those chosen. path, draft: [2, sequences x N], drafts
    to look at, to sort from and to: survival, and level (from 0) << 32 | sequence. ends: of each sorted run of them.
    """

    paths: Floats
    kv_lens: Floats
    row_ms: Floats
    chosen: Ints
    pending: Floats
    path: Floats
    draft: Ints
    ends: Ints


def make_rules(settings: ControllerSettings) -> Rules:
    """Return the settings with their limits applied."""
    predictor = settings.predictor
    return Rules(
        predicts=predictor is not None,
        intercept_ms=float(predictor.intercept_ms) if predictor else 0.0,
        token_ms=float(predictor.query_token_ms) if predictor else 0.0,
        prefix_ms=float(predictor.query_prefix_ms) if predictor else 0.0,
        draft_ms=float(max(settings.draft_ms, MIN_MS)),
        gain=float(1.0 + max(settings.min_gain, 0.0)),
    )


def make_bench(sequences: int, drafts: int) -> Bench:
    """Return room for that many sequences."""
    return Bench(
        paths=np.zeros((sequences, drafts)),
        kv_lens=np.zeros(sequences),
        row_ms=np.zeros(sequences),
        chosen=np.zeros(sequences, np.int64),
        pending=np.zeros(sequences),
        path=np.zeros((2, sequences * drafts)),
        draft=np.zeros((2, sequences * drafts), np.int64),
        ends=np.zeros(sequences, np.int64),
    )


@part
def fill_paths(bench: Bench, place: int, confidence: Confidence, block: int) -> None:
    """Fill a sequence's paths from the confidence of a block, [blocks, N]; as `step.controller.survival`."""
    path = 1.0
    for draft in range(confidence.shape[1]):
        sure = np.float64(confidence[block, draft])
        path *= 0.0 if sure < 0.0 else (1.0 if sure > 1.0 else sure)
        bench.paths[place, draft] = path if path == path else 0.0  # noqa: PLR0124  # a number that is none


@part
def _gather(bench: Bench, count: int, least: float) -> int:
    """Fill the first side with the drafts whose survival is not below `least`, a run a sequence; return how many.

    A sequence's paths only fall, so each run is in order.
    """
    found, drafts = 0, bench.paths.shape[1]
    for i in range(count):
        for level in range(drafts):
            if bench.paths[i, level] < least:
                break
            bench.path[0, found], bench.draft[0, found] = bench.paths[i, level], level << _LEVEL | i
            found += 1
        bench.ends[i] = found
    return found


@part
def _merge(bench: Bench, side: int, low: int, middle: int, high: int) -> None:
    """Merge two runs that lie behind each other on a side to the same place on the other.

    The likelier draft comes first; of two alike the one that is earlier in its block, then the earlier sequence's.
    """
    path, draft = bench.path, bench.draft
    i, j = low, middle
    for at in range(low, high):
        left = j >= high or (
            i < middle
            and (path[side, i] > path[side, j] or (path[side, i] == path[side, j] and draft[side, i] < draft[side, j]))
        )
        taken = i if left else j
        path[1 - side, at], draft[1 - side, at] = path[side, taken], draft[side, taken]
        i, j = (i + 1, j) if left else (i, j + 1)


@part
def _sort(bench: Bench, runs: int) -> int:
    """Merge runs by twos until there is one; return the side that holds it."""
    side = 0
    while runs > 1:
        low, merged = 0, 0
        for run in range(0, runs, 2):
            middle = bench.ends[run]
            high = bench.ends[run + 1] if run + 1 < runs else middle
            _merge(bench, side, low, middle, high)
            bench.ends[merged] = high
            low, merged = high, merged + 1
        side, runs = 1 - side, merged
    return side


@kernel
def choose(rules: Rules, bench: Bench, count: int) -> None:
    """Choose prefix lengths of the first `count` sequences, whose paths and kv_lens are filled.

    What a draft must bring only rises, so those that bring too little for the first bar are never looked at.
    """
    validate_ms, cheapest_ms = 1.0, 0.0
    for i in range(count):
        bench.row_ms[i], bench.chosen[i], bench.pending[i] = 0.0, 0, 0.0
    if rules.predicts:
        total = 0.0
        for i in range(count):
            row_ms = rules.token_ms + rules.prefix_ms * bench.kv_lens[i]
            bench.row_ms[i] = row_ms
            total += row_ms
            if i == 0 or row_ms < cheapest_ms:
                cheapest_ms = row_ms
        validate_ms = rules.intercept_ms + total
    cheapest_ms = cheapest_ms * (1 - SLACK) if validate_ms > MIN_MS else 0.0
    tokens = float(count)
    bar = tokens / (rules.draft_ms + (MIN_MS if validate_ms < MIN_MS else validate_ms)) * rules.gain
    found = _gather(bench, count, bar * cheapest_ms)
    side = _sort(bench, count)
    for at in range(found):
        path, draft = bench.path[side, at], bench.draft[side, at]
        if path < bar * cheapest_ms:
            break
        i, k = draft & _SEQUENCE, (draft >> _LEVEL) + 1
        gained = bench.pending[i] + path
        new_ms = validate_ms + bench.row_ms[i] * (k - bench.chosen[i])
        score = (tokens + gained) / (rules.draft_ms + (new_ms if new_ms >= MIN_MS else MIN_MS))
        bench.pending[i] = gained
        if score > bar:
            bench.chosen[i], bench.pending[i] = k, 0.0
            tokens, validate_ms, bar = tokens + gained, new_ms, score * rules.gain

"""The controller of `step/controller.py` over arrays. Both are held equal, choice by choice, by their tests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simtool.replay.compiled.kernel import kernel, part
from simtool.step.controller import MIN_MS, SLACK, ControllerSettings

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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

    kv_lens: tokens. level: the draft of each that comes next, from 0. heap: sequences, the likeliest next draft first;
    key: its path, of the sequence at each place. pending: tokens that drafts seen since add to those chosen.
    """

    paths: Floats
    kv_lens: Floats
    row_ms: Floats
    level: Ints
    heap: Ints
    key: Floats
    chosen: Ints
    pending: Floats


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
        level=np.zeros(sequences, np.int64),
        heap=np.zeros(sequences, np.int64),
        key=np.zeros(sequences),
        chosen=np.zeros(sequences, np.int64),
        pending=np.zeros(sequences),
    )


@part
def _before(bench: Bench, path: float, sequence: int, place: int) -> bool:
    """Whether a sequence's next draft, accepted with `path`, comes before the one at a place of the heap.

    The likelier draft comes first; of two alike the one that is earlier in its block, then the earlier sequence's.
    """
    if path != bench.key[place]:
        return bool(path > bench.key[place])
    other = bench.heap[place]
    if bench.level[sequence] != bench.level[other]:
        return bool(bench.level[sequence] < bench.level[other])
    return bool(sequence < other)


@part
def _sink(bench: Bench, sequence: int, path: float, place: int, size: int) -> None:
    """Put a sequence where it belongs, at a place of the heap or below it."""
    heap, key = bench.heap, bench.key
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _before(bench, key[child + 1], heap[child + 1], child):
            child += 1
        if _before(bench, path, sequence, child):
            break
        heap[place], key[place] = heap[child], key[child]
        place = child
    heap[place], key[place] = sequence, path


@part
def _fill_heap(bench: Bench, count: int) -> int:
    """Make a heap of each sequence's first draft; return its size."""
    for i in range(count):
        bench.heap[i], bench.key[i] = i, bench.paths[i, 0]
    for place in range(count // 2 - 1, -1, -1):
        _sink(bench, bench.heap[place], bench.key[place], place, count)
    return count


@kernel
def choose(rules: Rules, bench: Bench, count: int) -> None:
    """Choose prefix lengths of the first `count` sequences, whose paths and kv_lens are filled.

    A sequence's paths only fall, so its drafts come up in order, and a heap of each one's next draft yields all of
    them in the order of a sort.
    """
    drafts = bench.paths.shape[1]
    validate_ms, cheapest_ms = 1.0, 0.0
    for i in range(count):
        bench.row_ms[i], bench.chosen[i], bench.level[i], bench.pending[i] = 0.0, 0, 0, 0.0
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
    size = _fill_heap(bench, count) if drafts else 0
    while size:
        i, path = bench.heap[0], bench.key[0]
        if path < bar * cheapest_ms:
            break
        k = bench.level[i] + 1
        gained = bench.pending[i] + path
        new_ms = validate_ms + bench.row_ms[i] * (k - bench.chosen[i])
        score = (tokens + gained) / (rules.draft_ms + (new_ms if new_ms >= MIN_MS else MIN_MS))
        bench.pending[i] = gained
        if score > bar:
            bench.chosen[i], bench.pending[i] = k, 0.0
            tokens, validate_ms, bar = tokens + gained, new_ms, score * rules.gain
        if k < drafts:
            bench.level[i] = k
            _sink(bench, i, bench.paths[i, k], 0, size)
        else:
            size -= 1
            _sink(bench, bench.heap[size], bench.key[size], 0, size)

"""What is served, as the kernels take it: requests in queue order, and what the drafter does at each anchor of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simtool.replay.compiled.controller import Confidence
from simtool.replay.keyed_rng import uniforms
from simtool.replay.outcomes.outcomes import Outcomes
from simtool.replay.prices.cost_sampler import BLOCK_TOKENS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Requests(NamedTuple):
    """[requests] each, in queue order; tokens, but for the last three.

    total: that it will emit. asked: prompt and the most that it may emit. place_at: where its anchors begin, from
    anchor `prompt` on. draw_at: where its draws of noise begin, from the block of that anchor on.
    """

    prompt: Ints
    total: Ints
    asked: Ints
    arrival_ns: Ints
    place_at: Ints
    draw_at: Ints


class Anchors(NamedTuple):
    """[places] each, as in `Outcomes`. confidence: [blocks, N], as decisions read it.

    stale_luck: what rounds a what-if loss; empty without one.
    """

    block: NDArray[np.int32]
    match_run: NDArray[np.int16]
    known: NDArray[np.bool_]
    confidence: Confidence
    stale_luck: Floats


@dataclass(frozen=True)
class Served:
    """Requests with their outcomes, and the draws that belong to them, each made once. names: of the requests."""

    names: tuple[str, ...]
    requests: Requests
    outcomes: Outcomes
    _luck: dict[int, Floats] = field(default_factory=dict)

    @property
    def places(self) -> int:
        """How many anchors can be visited."""
        return len(self.outcomes.block)

    @property
    def at_once(self) -> bool:
        """Whether all requests are there from the start, so that the clock has no say in the tokens."""
        return not self.requests.arrival_ns.any()

    def luck(self, seed: int) -> Floats:
        """Return the draw of each block of anchors under a seed of the noise."""
        if seed not in self._luck:
            keys = zip(self.names, self.requests.prompt.tolist(), self.requests.total.tolist(), strict=True)
            self._luck[seed] = uniforms(((seed, name), blocks_of(prompt, total)) for name, prompt, total in keys)
        return self._luck[seed]

    @cached_property
    def anchors(self) -> Anchors:
        """The anchors where nothing is lost to old confidence."""
        found = self.outcomes
        return Anchors(found.block, found.match_run, found.known, found.blocks.calibrated, np.zeros(0, np.float64))

    @cached_property
    def losing(self) -> Anchors:
        """The anchors with what rounds a what-if loss at each."""
        keys = zip(self.names, self.requests.prompt.tolist(), self.requests.total.tolist(), strict=True)
        anchors = ((("stale loss", name), range(prompt, prompt + total - 1)) for name, prompt, total in keys)
        return self.anchors._replace(stale_luck=uniforms(anchors))


def serve(outcomes: Outcomes) -> Served:
    """Return the requests of outcomes as arrays."""
    requests, totals = outcomes.requests, (outcomes.visits + 1).tolist()
    prompt = np.array([request.prompt_tokens for request in requests], np.int64)
    counts = [len(blocks_of(*each)) for each in zip(prompt.tolist(), totals, strict=True)]
    return Served(
        tuple(request.request_id for request in requests),
        Requests(
            prompt=prompt,
            total=np.array(totals, np.int64),
            asked=np.array([request.prompt_tokens + request.max_new_tokens for request in requests], np.int64),
            arrival_ns=np.array([request.arrival_ns for request in requests], np.int64),
            place_at=outcomes.base + prompt,
            draw_at=np.cumsum([0, *counts], dtype=np.int64)[:-1],
        ),
        outcomes,
    )


def blocks_of(prompt: int, total: int) -> range:
    """Return the blocks of anchors whose draws a request may take, its prefill's among them."""
    return range(prompt // BLOCK_TOKENS, (prompt + total - 1) // BLOCK_TOKENS + 1)

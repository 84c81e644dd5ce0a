"""The load itself: why a batch of 32 at a TPOT of 19.3 ms does not make 1,658 tokens a second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from published_runs.prediction import Prediction
from published_runs.tables import spreads, xllm_arms
from published_runs.xllm.gains import XLLM
from published_runs.xllm.machine import CONCURRENCY, MIDDLE, OUTPUTS, figures_profile, traffic
from simtool.analysis.metrics import summarise_trace
from simtool.profile.profile import Profile
from simtool.replay.as_recorded import scenario
from simtool.replay.replay import replay
from simtool.replay.synthetic.lengths import Lengths
from simtool.stats.interval import LEVEL
from simtool.trace.trace import Trace
from simtool.units import NS_PER_MS, NS_PER_S

_SEEDS = 24
_PARTS = 10
SIGMAS = (0.7, 1.0, 1.3)


@dataclass(frozen=True)
class Load:
    """One replay of the load. occupancy: tok/s times TPOT, as the published figures tell it, in requests at once.

    at_once: mean batch in each tenth of the run, prefills counting as what they were before. full_share: of the time,
    with 32 at once.
    """

    tokens_per_s: float
    tpot_ms: float
    at_once: tuple[float, ...]
    full_share: float

    @property
    def occupancy(self) -> float:
        """Requests at once that the two figures come to."""
        return self.tokens_per_s * self.tpot_ms / 1000


def loads(folder: Path, profiles: Path, sl: int, requests: int, sigma: float = OUTPUTS.sigma) -> list[Load]:
    """Return replays of a run's load under many draws of its lengths, in order of their occupancy."""
    profile = figures_profile(profiles)
    rate = next(arm.acceptance_rate for arm in xllm_arms(folder) if arm.arm == "static" and arm.sl == sl)
    outputs = Lengths(OUTPUTS.mean, sigma, OUTPUTS.most)
    found = [_load(traffic(sl, rate, MIDDLE, profile, requests, seed, outputs), profile) for seed in range(_SEEDS)]
    return sorted(found, key=lambda load: load.occupancy)


def range_of(found: Sequence[Load]) -> tuple[float, float]:
    """Return the middle 95 % of the occupancy over draws."""
    tail = (1 - LEVEL) / 2
    low, high = np.quantile([load.occupancy for load in found], [tail, 1 - tail]).tolist()
    return float(low), float(high)


def predictions(folder: Path, found: dict[int, list[Load]]) -> list[Prediction]:
    """Return the occupancy of every arm that tells tok/s and TPOT; found: by SL."""
    spread = spreads(folder)[XLLM]
    predicted = []
    for arm in xllm_arms(folder):
        if arm.tpot_ms is None:
            continue
        low, high = range_of(found[arm.sl])
        predicted.append(
            Prediction(
                source=XLLM,
                setting=f"run {arm.run}, SL {arm.sl}",
                figure=f"requests at once of {arm.arm}, by tok/s x TPOT",
                low=low,
                high=high,
                published=arm.tokens_per_s * arm.tpot_ms / 1000,
                spread=spread,
                gain=False,
            )
        )
    return predicted


def _load(source: Trace, profile: Profile) -> Load:
    asked = scenario(source, profile, "xllm-2280/lag", concurrency=CONCURRENCY)
    replayed = replay(source, profile, asked, simulator="compiled").trace()
    found = summarise_trace(replayed)
    steps = replayed.table("steps")
    start, end, batch = (steps[name].to_numpy() for name in ("start_ns", "end_ns", "batch"))
    running = np.where(steps["kind"].to_numpy() == "decode", batch, 0)
    running = np.maximum.accumulate(np.where(running > 0, np.arange(len(running)), 0))
    held = batch[running]
    span = end.max() - start.min()
    edges = start.min() + span * np.arange(_PARTS + 1) / _PARTS
    shares = [
        np.clip(np.minimum(end, high) - np.maximum(start, low), 0, None) / (high - low) for low, high in pairwise(edges)
    ]
    return Load(
        tokens_per_s=float(found.output_tokens * NS_PER_S / span),
        tpot_ms=float(found.tpot.mean_ns) / NS_PER_MS if found.tpot.mean_ns is not None else float("nan"),
        at_once=tuple(float(share @ held) for share in shares),
        full_share=float((end - start)[held == CONCURRENCY].sum() / span),
    )

"""What a lag costs in acceptance: per position and per prompt kind, and how long a confidence stays worth reading.

Greedy decoding emits the same tokens at every lag, so a request that loses acceptance needs more steps for them (its
emitted length falls):
loss = 1 - steps at lag 0 / steps at the lag. Requests are independent, hence the interval: the request is its unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from simtool.analysis.confidence import auc
from simtool.calibrate.drafted import DraftedBlocks
from simtool.errors import TraceError
from simtool.stats.interval import Interval
from simtool.stats.student import ratio_interval
from simtool.trace.trace import Trace

ALL = "all"


@dataclass(frozen=True)
class Staleness:
    """One lag, one prompt kind ("all": every request).

    loss: share of emitted tokens per sequence-step lost against lag 0, with its interval over requests.
    offered_at[k-1], accepted_at[k-1]: sequence-steps that offered, accepted their k-th draft, of sequence_steps.
    unfresh: sequence-steps verified at full width for want of a confidence old enough; a request has `lag` of them,
    so that a short output hides part of what its lag costs.
    """

    lag: int
    kind: str
    requests: int
    sequence_steps: int
    unfresh: int
    acceptance_length: float
    acceptance_rate: float | None
    loss: Interval
    offered_at: tuple[int, ...]
    accepted_at: tuple[int, ...]


@dataclass(frozen=True)
class Persistence:
    """Blocks `distance` steps apart in a request: correlation of the expected accepted drafts, of each position's
    confidence, and how well the older forecast ranks the newer block's outcomes (AUC by position); None: undefined.
    """

    distance: int
    pairs: int
    correlation: float | None
    by_position: tuple[float | None, ...]
    auc: tuple[float | None, ...]


def staleness_by_lag(traces: Mapping[int, Trace]) -> list[Staleness]:
    """Compare runs of the same requests at several lags; traces: by lag, lag 0 among them.

    Raises TraceError when lag 0 is missing.
    """
    if 0 not in traces:
        raise TraceError(f"lags {sorted(traces)} without lag 0; there is nothing to compare them with")
    base = _steps_by_request(traces[0])
    drafts = traces[0].manifest.sl
    found = []
    for lag, trace in sorted(traces.items()):
        joined = base.join(
            _steps_by_request(trace), on=["request_id", "kind"], suffix="_lagged", nulls_equal=True
        ).sort("request_id")
        rows = trace.columns("rows", "request_id", "prefix_len", "accepted", "fresh").join(
            joined.select("request_id", "kind"), on="request_id"
        )
        kinds = sorted(kind for kind in set(joined["kind"].to_list()) if kind is not None)
        for kind in (ALL, *kinds):
            mine = pl.lit(True) if kind == ALL else pl.col("kind") == kind
            found.append(_effect(lag, kind, joined.filter(mine), rows.filter(mine), drafts))
    return found


def persistence(blocks: DraftedBlocks, distance: int) -> Persistence:
    """Compare each block with the one `distance` steps before it in the same request."""
    same = blocks.request[distance:] == blocks.request[:-distance]
    forecast, confidence = blocks.forecast, blocks.confidence
    old, new = slice(None, -distance), slice(distance, None)
    match, offered = blocks.match_run[new], blocks.offered[new]
    ranked = []
    for k in range(1, blocks.positions + 1):
        judged = same & (offered >= k)
        ranked.append(auc(forecast[old][judged, k - 1], match[judged] >= k))
    return Persistence(
        distance=distance,
        pairs=int(same.sum()),
        correlation=_correlation(forecast[old].sum(axis=1)[same], forecast[new].sum(axis=1)[same]),
        by_position=tuple(
            _correlation(confidence[old][same, k], confidence[new][same, k]) for k in range(blocks.positions)
        ),
        auc=tuple(ranked),
    )


def _steps_by_request(trace: Trace) -> pl.DataFrame:
    requests = trace.table("requests").filter(pl.col("finished_ns").is_not_null()).select("request_id", "kind")
    steps = trace.columns("rows", "request_id").group_by("request_id").agg(steps=pl.len().cast(pl.Int64))
    return requests.join(steps, on="request_id")


def _effect(lag: int, kind: str, steps: pl.DataFrame, rows: pl.DataFrame, drafts: int) -> Staleness:
    fresh, lagged = steps["steps"].to_numpy(), steps["steps_lagged"].to_numpy()
    offered, accepted = int(rows["prefix_len"].sum()), int(rows["accepted"].sum())
    return Staleness(
        lag=lag,
        kind=kind,
        requests=steps.height,
        sequence_steps=rows.height,
        unfresh=int((~rows["fresh"]).sum()),
        acceptance_length=accepted / rows.height + 1,
        acceptance_rate=accepted / offered if offered else None,
        loss=ratio_interval(lagged - fresh, lagged),
        offered_at=_at_least(rows["prefix_len"], drafts),
        accepted_at=_at_least(rows["accepted"], drafts),
    )


def _at_least(values: pl.Series, drafts: int) -> tuple[int, ...]:
    return tuple(int((values >= k).sum()) for k in range(1, drafts + 1))


def _correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    if len(one) < 3 or not one.std() or not other.std():
        return None
    return float(np.corrcoef(one, other)[0, 1])

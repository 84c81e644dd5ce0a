"""Lag as a number: the same requests replayed at several lags, and how alike the blocks of a request are."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import polars as pl

from simtool.analysis.staleness import Persistence, Staleness, persistence, staleness_by_lag
from simtool.calibrate.drafted import blocks_of
from simtool.profile.profile import Profile
from simtool.replay.caveats import Caveats, merged
from simtool.replay.compiled.kernel import default_simulator
from simtool.replay.controller_options import ControllerOptions
from simtool.replay.passing import passing_replay
from simtool.replay.scenario import Scenario, outcome_mode
from simtool.step.placement import BUILT_IN, Placement, with_lag
from simtool.study.full_batch import check_decodes
from simtool.trace.frames import empty_frame
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace

_ANCHOR = ("request_id", "anchor_position")
_DISTANCES = (1, 2, 3, 4, 5)


def placement_at(lag: int) -> Placement:
    """Return this-step at lag 0, else lag-overlap at that lag."""
    return with_lag(BUILT_IN["lag-overlap"], lag) if lag else BUILT_IN["this-step"]


@dataclass(frozen=True)
class StalenessStudy:
    """What `staleness_study` finds; caveats: of its replays, but for those about times."""

    effects: tuple[Staleness, ...]
    persistence: tuple[Persistence, ...]
    caveats: Caveats


def staleness_study(
    source: Trace, profile: Profile, lags: Sequence[int], options: ControllerOptions | None = None
) -> StalenessStudy:
    """Replay the trace at lag 0 and at each of `lags`; how alike blocks are is judged on those that lag 0 visits.

    options: of the controller; None: as recorded, and the predictor as every replay's.
    """
    check_decodes(source)
    controller = (options or ControllerOptions()).settings(source, profile)
    concurrency, mode = source.manifest.concurrency, outcome_mode(source.manifest)
    with ExitStack() as kept:
        replays = {
            lag: kept.enter_context(
                passing_replay(
                    source,
                    profile,
                    Scenario(placement_at(lag), concurrency, controller, outcomes=mode),
                    simulator=default_simulator(),
                )
            )
            for lag in sorted({0, *lags})
        }
        blocks = blocks_of(_visited(source, replays[0][0]))
        effects = staleness_by_lag({lag: replayed for lag, (replayed, _) in replays.items()})
    alike = () if blocks is None else tuple(persistence(blocks, distance) for distance in _DISTANCES)
    caveats = merged(each for _, each in replays.values())
    if controller.predictor != profile.predictor:
        caveats = replace(caveats, changes=())
    # what bears on tokens: not how ops are priced. What changed the profile may have changed its predictor.
    caveats = replace(caveats, beyond=(), proxies=())
    return StalenessStudy(tuple(effects), alike, caveats)


def _visited(source: Trace, replayed: Trace) -> Trace:
    """The source with the outcomes of the anchors that a replay visited, marked so."""
    anchors = replayed.columns("rows", *_ANCHOR)
    visited = [empty_frame(TABLES["outcomes"])]
    for outcomes in source.stretches("outcomes"):
        known = outcomes.filter(pl.col("match_run").is_not_null())
        one = known.unique(_ANCHOR, keep="first", maintain_order=True)
        first, last = (pl.lit(outcomes["request_id"][place]) for place in (0, -1))
        here = anchors.filter(pl.col("request_id").is_between(first, last))
        visited.append(one.join(here, on=_ANCHOR, how="semi", maintain_order="left"))
    return source.with_table("outcomes", pl.concat(visited).with_columns(source=pl.lit("visited")))

"""What live runs showed at the points of a sweep, beside what replays give there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simtool.analysis.comparison.headline import BASELINE
from simtool.cli.shared import study
from simtool.cli.shared.differences import as_record

if TYPE_CHECKING:
    import polars as pl

    from simtool.analysis.comparison.comparison import Comparison
    from simtool.cli.documents.parts import ComparisonRecord
    from simtool.step.placement import Placement
    from simtool.study.runner import Setting

#: Trace, concurrency, stale loss.
_Point = tuple[str, int, float]


@dataclass(frozen=True)
class SweptLive:
    """opening: of the answer. found: by point and placement, the live comparison with static."""

    opening: str
    found: Mapping[tuple[_Point, str], Comparison]

    def of(self, row: Mapping[str, Any]) -> Comparison | None:
        """Return the live comparison of a row of the table; None: nobody ran it."""
        return self.found.get((_point(row), row["placement"]))

    def record_of(self, row: Mapping[str, Any]) -> ComparisonRecord | None:
        """Return it for machines."""
        found = self.of(row)
        return None if found is None else as_record(found)

    def text_of(self, row: Mapping[str, Any]) -> str:
        """Return it for the table."""
        found = self.of(row)
        return "-" if found is None else f"{found.ratio - 1:+.1%}"


def swept_live(settings: Sequence[Setting], placements: Sequence[Placement], gains: pl.DataFrame) -> SweptLive:
    """Look up what live runs showed at each point. gains: the sweep's, by point and placement."""
    from simtool.report.terminal.live_first import live_first_at_points
    from simtool.study.sweep import trace_labels

    labels = trace_labels([setting.source.path for setting in settings])
    over_static: dict[_Point, dict[str, float]] = {}
    for row in gains.iter_rows(named=True):
        over_static.setdefault(_point(row), {})[row["placement"]] = 1 + row["gain"]
    known = {}
    for setting in settings:
        point = (labels[setting.source.path], setting.concurrency, setting.stale_loss)
        known[point] = study.known_live(setting, placements)
    points = {}
    for point, live in known.items():
        gain = over_static.get(point, {})
        static = gain.get(BASELINE)
        points[f"{point[0]}, concurrency {point[1]}"] = (
            live,
            {name: ratio / static for name, ratio in gain.items() if static},
        )
    found = {(point, each.other): each for point, live in known.items() if live for each in live.comparisons}
    return SweptLive(live_first_at_points(points), found)


def _point(row: Mapping[str, Any]) -> _Point:
    return row["trace"], row["concurrency"], row["stale_loss"]

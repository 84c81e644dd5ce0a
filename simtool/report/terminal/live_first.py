"""What opens a verdict of replays where live runs answered the same question: their figures, in one form everywhere."""

from __future__ import annotations

from collections.abc import Mapping

from simtool.analysis.comparison.arms import ORIGIN_WORDS
from simtool.analysis.comparison.comparison import Comparison
from simtool.analysis.comparison.headline import BASELINE
from simtool.analysis.comparison.judged import KnownLive

LIVE = ORIGIN_WORDS["live"]


def measured(page: str, elsewhere: str) -> str:
    """Return what is said of live figures: that they are, where they stand (empty: in the traces given), and on which
    other machine they were measured (empty: the one of the costs).
    """
    on = f"{LIVE} on another machine, {elsewhere}" if elsewhere else LIVE
    return f"{on}, {page}" if page else on


def live_first(known: KnownLive | None, modeled: Mapping[str, float]) -> str:
    """Return how a verdict of replays opens; empty where no live runs are known.

    modeled: by placement, its tokens/s over static's as replays have it, where they do.
    """
    if known is None:
        return ""
    found = ", ".join(f"{each.other} {_change(each)}" for each in known.comparisons)
    otherwise = ", and replays say otherwise: go by the live figures" if known.contradicts(modeled) else ""
    return f"{measured(known.setting.page, known.elsewhere)}: against {BASELINE} {found}{otherwise}; "


def live_first_at_points(points: Mapping[str, tuple[KnownLive | None, Mapping[str, float]]]) -> str:
    """Return the same for a grid. points: what a point is called -> what `live_first` takes."""
    known = [(name, live, modeled) for name, (live, modeled) in points.items() if live is not None]
    if len(points) == 1:
        return live_first(*next(iter(points.values())))
    if not known:
        return ""
    pages = " and ".join(dict.fromkeys(measured(live.setting.page, live.elsewhere) for _, live, _ in known))
    against = [
        f"{name}: {', '.join(f'{each.other} {_change(each)}' for each in live.comparisons)}"
        for name, live, modeled in known
        if live.contradicts(modeled)
    ]
    otherwise = f", and replays say otherwise, go by the live figures ({'; '.join(against)})" if against else ""
    return f"{pages}: known at {len(known)} of {len(points)} points, column live{otherwise}; "


def _change(found: Comparison) -> str:
    half = "" if found.found.half is None else f" \N{PLUS-MINUS SIGN} {found.found.half * 100:.1f}"
    return f"{(found.ratio - 1) * 100:+.1f}{half} %"

"""Figure: contours of the acceptance that a lag can afford to lose, over decision cost and concurrency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from simtool.report.figures.style import INK, dress
from simtool.study.break_even import BreakEven
from simtool.units import NS_PER_US


@dataclass(frozen=True)
class Contours:
    """affordable: [concurrency][decision], percent of tokens per step. lost: [concurrency], percent, as replayed."""

    concurrencies: tuple[int, ...]
    decisions_us: tuple[float, ...]
    affordable: tuple[tuple[float, ...], ...]
    lost: tuple[float, ...]


def contours(points: Sequence[BreakEven]) -> Contours:
    """Arrange the points as a grid; they hold every decision cost at every concurrency."""
    by_place = {(point.concurrency, point.decision_ns): point for point in points}
    concurrencies = tuple(sorted({concurrency for concurrency, _ in by_place}))
    decisions = tuple(sorted({decision for _, decision in by_place}))
    grid = tuple(tuple(100 * by_place[c, d].affordable.mean for d in decisions) for c in concurrencies)
    lost = tuple(100 * by_place[c, decisions[0]].lost.mean for c in concurrencies)
    return Contours(concurrencies, tuple(decision / NS_PER_US for decision in decisions), grid, lost)


def draw_break_even(points: Sequence[BreakEven]) -> go.Figure:
    """Draw the affordable loss as labelled contours; on the right what the lag loses at each concurrency."""
    grid = contours(points)
    figure = go.Figure(
        go.Contour(
            z=grid.affordable,
            x=grid.decisions_us,
            y=list(range(len(grid.concurrencies))),
            customdata=[[concurrency] * len(grid.decisions_us) for concurrency in grid.concurrencies],
            colorscale="Blues",
            contours={"showlabels": True, "labelfont": {"color": INK}},
            colorbar={"title": "can afford, %"},
            hovertemplate="decision %{x:.0f} us, concurrency %{customdata}: can afford %{z:.2f} %<extra></extra>",
        )
    )
    for place, lost in enumerate(grid.lost):
        figure.add_annotation(x=0, xref="paper", xanchor="left", y=place, text=f"loses {lost:.1f} %", showarrow=False)
    dress(figure, height=380, x_title="a decision costs, us", y_title="concurrency")
    names = [str(concurrency) for concurrency in grid.concurrencies]
    figure.update_yaxes(tickvals=list(range(len(names))), ticktext=names)
    return figure

"""Figure: the acceptance that a lag can afford to lose, a cell for each decision cost and concurrency replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from simtool.report.figures.style import dress
from simtool.study.break_even import BreakEven
from simtool.units import NS_PER_US


@dataclass(frozen=True)
class AffordableLoss:
    """affordable: [concurrency][decision], percent of tokens per step. lost: [concurrency], percent, as replayed."""

    concurrencies: tuple[int, ...]
    decisions_us: tuple[float, ...]
    affordable: tuple[tuple[float, ...], ...]
    lost: tuple[float, ...]


def affordable_loss(points: Sequence[BreakEven]) -> AffordableLoss:
    """Arrange the points as a grid; they hold every decision cost at every concurrency."""
    by_place = {(point.concurrency, point.decision_ns): point for point in points}
    concurrencies = tuple(sorted({concurrency for concurrency, _ in by_place}))
    decisions = tuple(sorted({decision for _, decision in by_place}))
    grid = tuple(tuple(100 * by_place[c, d].affordable.mean for d in decisions) for c in concurrencies)
    lost = tuple(100 * by_place[c, decisions[0]].lost.mean for c in concurrencies)
    return AffordableLoss(concurrencies, tuple(decision / NS_PER_US for decision in decisions), grid, lost)


def draw_break_even(points: Sequence[BreakEven]) -> go.Figure:
    """Draw the affordable loss as a grid, for nothing was replayed between its cells; beside it what the lag loses."""
    grid = affordable_loss(points)
    names = [
        f"{concurrency} (loses {lost:.1f} %)" for concurrency, lost in zip(grid.concurrencies, grid.lost, strict=True)
    ]
    margin = [[each - lost for each in row] for row, lost in zip(grid.affordable, grid.lost, strict=True)]
    reach = max((abs(each) for row in margin for each in row), default=1.0)
    figure = go.Figure(
        go.Heatmap(
            z=margin,
            x=[f"{decision:g}" for decision in grid.decisions_us],
            y=names,
            customdata=grid.affordable,
            zmin=-reach,
            zmax=reach,
            colorscale=[[0, "#D55E00"], [0.5, "#ffffff"], [1, "#0072B2"]],
            texttemplate="%{customdata:.1f} %",
            colorbar={"title": "spare, %"},
            hovertemplate="decision %{x} us, concurrency %{y}: can afford %{customdata:.2f} %, to spare %{z:+.2f} %"
            "<extra></extra>",
        )
    )
    dress(figure, height=160 + 46 * len(names), x_title="a decision costs, us", y_title="concurrency")
    figure.update_xaxes(type="category")
    figure.update_yaxes(type="category")
    return figure

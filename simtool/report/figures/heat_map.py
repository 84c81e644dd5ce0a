"""Figure: a sweep as heat maps: the gain of every placement over concurrency, one panel a trace and profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from simtool.report.figures.style import dress

_ROW_PX, _PANEL_PX = 30, 80


@dataclass(frozen=True)
class HeatMap:
    """One panel. gains: [placement][concurrency], percent in tokens/s over the baseline; None: not run."""

    title: str
    placements: tuple[str, ...]
    concurrencies: tuple[int, ...]
    gains: tuple[tuple[float | None, ...], ...]


def heat_maps(gains: pl.DataFrame, baseline: str) -> list[HeatMap]:
    """Arrange the table of `study.sweep.with_gain`; the baseline's own row, all zeros, is left out."""
    panels = []
    for (trace, profile, sl, loss), part in gains.group_by("trace", "profile", "sl", "stale_loss", maintain_order=True):
        others = part.filter(pl.col("placement") != baseline)
        placements = tuple(dict.fromkeys(others["placement"].to_list()))
        concurrencies = tuple(sorted(set(part["concurrency"].to_list())))
        found = {
            (placement, concurrency): 100 * gain
            for placement, concurrency, gain in others.select("placement", "concurrency", "gain").iter_rows()
        }
        rows = tuple(tuple(found.get((placement, c)) for c in concurrencies) for placement in placements)
        what_if = f", stale decisions lose {loss:.0%}" if loss else ""
        panels.append(HeatMap(f"{trace}, SL {sl}, costs of {profile}{what_if}", placements, concurrencies, rows))
    return panels


def draw_heat_map(panels: Sequence[HeatMap]) -> go.Figure:
    """Draw the panels one below the other on one colour scale around zero."""
    figure = make_subplots(rows=len(panels), cols=1, subplot_titles=[panel.title for panel in panels])
    reach = max((abs(g) for panel in panels for row in panel.gains for g in row if g is not None), default=1.0)
    for place, panel in enumerate(panels, start=1):
        figure.add_trace(
            go.Heatmap(
                z=panel.gains,
                x=[str(concurrency) for concurrency in panel.concurrencies],
                y=panel.placements,
                zmin=-reach,
                zmax=reach,
                colorscale=[[0, "#D55E00"], [0.5, "#ffffff"], [1, "#0072B2"]],
                texttemplate="%{z:+.1f} %",
                hovertemplate="%{y} at concurrency %{x}: %{z:+.2f} %<extra></extra>",
                showscale=place == 1,
                colorbar={"title": "gain, %", "len": 1 / len(panels), "y": 1, "yanchor": "top"},
            ),
            row=place,
            col=1,
        )
        figure.update_yaxes(autorange="reversed", row=place, col=1)
    height = sum(_PANEL_PX + _ROW_PX * len(panel.placements) for panel in panels)
    dress(figure, height=height + 60, x_title="concurrency")
    figure.update_xaxes(type="category")
    figure.update_layout(margin_t=48)
    return figure

"""Figure: the tornado: the step time that each op gives back when it is free, halved, or moved."""

from __future__ import annotations

import plotly.graph_objects as go

from simtool.report.figures.style import FAINT, dress
from simtool.study.sensitivity import OpSensitivity, Sensitivity
from simtool.units import NS_PER_US

_ROW_PX = 34
_MAX_BARS = 16
_COLOURS = {"free": "#0072B2", "halved": "#56B4E9", "moved": "#E69F00"}


def shown_bars(found: Sensitivity) -> list[OpSensitivity]:
    """Return the bars worth drawing, the largest first: those that change the step by a thousandth at least."""
    telling = [bar for bar in found.bars if max(abs(bar.free_ns), abs(bar.moved_ns or 0.0)) >= found.step_ns / 1000]
    return telling[:_MAX_BARS]


def draw_sensitivity(found: Sensitivity) -> go.Figure:
    """Draw three bars an op."""
    bars = shown_bars(found)
    names = [f"{bar.name} ({bar.lane})" for bar in bars]
    gains: dict[str, list[float | None]] = {
        "free": [bar.free_ns for bar in bars],
        "halved": [bar.halved_ns for bar in bars],
        "moved": [bar.moved_ns for bar in bars],
    }
    figure = go.Figure()
    for change, values in gains.items():
        figure.add_bar(
            name=change,
            orientation="h",
            y=names,
            x=[None if value is None else value / NS_PER_US for value in values],
            marker_color=_COLOURS[change],
            hovertemplate=f"%{{y}} {change}: %{{x:.1f}} us<extra></extra>",
        )
    figure.add_vline(x=0, line_color=FAINT)
    title = f"us off the mean step of {found.placement} ({found.step_ns / NS_PER_US:,.0f} us)"
    dress(figure, height=120 + _ROW_PX * len(bars), x_title=title)
    figure.update_layout(barmode="group")
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return figure

"""Figure: the tornado: the step time that each op gives back when it is free, halved, or moved."""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from simtool.report.figures.style import FAINT, dress
from simtool.study.sensitivity import OpSensitivity, Sensitivity
from simtool.units import NS_PER_US

_ROW_PX = 34
_MAX_BARS = 16
_COLOURS = {"free": "#0072B2", "halved": "#56B4E9", "moved": "#E69F00", "not blocking": "#009E73"}


def shown_bars(found: Sensitivity) -> list[OpSensitivity]:
    """Return the bars worth drawing, the largest first: those that change the step by a thousandth at least."""
    telling = [
        bar
        for bar in found.bars
        if max(abs(bar.free_ns), abs(bar.moved_ns or 0.0), abs(bar.unsynced_ns or 0.0)) >= found.step_ns / 1000
    ]
    return telling[:_MAX_BARS]


def draw_sensitivity(found: Sensitivity) -> go.Figure:
    """Draw three bars an op, host ops above and device work below: the two are sped up by different people."""
    sides: dict[str, list[OpSensitivity]] = {"host": [], "device": []}
    for bar in shown_bars(found):
        sides["host" if bar.lane == "host" else "device"].append(bar)
    sides = {side: bars for side, bars in sides.items() if bars}
    heights = [len(bars) for bars in sides.values()]
    titles = [{"host": "host ops", "device": "device work"}[side] for side in sides]
    figure = make_subplots(
        rows=max(len(sides), 1), cols=1, shared_xaxes=True, row_heights=heights or None, subplot_titles=titles
    )
    for row, bars in enumerate(sides.values(), start=1):
        for change, values in _gains(bars).items():
            figure.add_bar(
                name=change,
                legendgroup=change,
                showlegend=row == 1,
                orientation="h",
                y=[bar.name for bar in bars],
                x=[None if value is None else value / NS_PER_US for value in values],
                marker_color=_COLOURS[change],
                hovertemplate=f"%{{y}} {change}: %{{x:.1f}} us<extra></extra>",
                row=row,
                col=1,
            )
        figure.add_vline(x=0, line_color=FAINT, row=row, col=1)
    title = f"us off the mean step of {found.placement} ({found.step_ns / NS_PER_US:,.0f} us)"
    dress(figure, height=170 + _ROW_PX * sum(heights))
    figure.update_xaxes(title=title, row=max(len(sides), 1), col=1)
    figure.update_layout(barmode="group", margin_t=60, legend_y=1.08)
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return figure


def _gains(bars: list[OpSensitivity]) -> dict[str, list[float | None]]:
    gains: dict[str, list[float | None]] = {
        "free": [bar.free_ns for bar in bars],
        "halved": [bar.halved_ns for bar in bars],
        "moved": [bar.moved_ns for bar in bars],
    }
    unsynced = [bar.unsynced_ns for bar in bars]
    return {**gains, "not blocking": unsynced} if any(value is not None for value in unsynced) else gains

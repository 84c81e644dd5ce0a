"""Figure: every placement against the baseline, live and modeled side by side, each with its 95 % interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from simtool.analysis.comparison.arms import Arm
from simtool.analysis.comparison.comparison import Comparison
from simtool.analysis.comparison.headline import HEADLINE
from simtool.analysis.comparison.runs import metric_value
from simtool.analysis.comparison.verdict import Verdict
from simtool.report.figures.style import FAINT, ORIGIN_COLOURS, ORIGIN_SYMBOLS, dress

_ROW_PX = 46


@dataclass(frozen=True)
class Point:
    """One arm. change, low, high: percent against its group's baseline (0 for the baseline itself)."""

    row: str
    origin: str
    label: str
    tokens_per_s: float
    change: float
    low: float
    high: float
    note: str


def comparison_points(answers: Sequence[Verdict], arms: Sequence[Arm]) -> list[Point]:
    """Return one point for every arm, in the order of `arms`; arms of one placement and shape share a row."""
    points = []
    for arm in arms:
        group = next(each for each in answers if each.group == arm.group)
        found = next((each for each in group.comparisons if each.other == arm.name), None)
        points.append(_point(arm, found))
    return points


def draw_comparison(points: Sequence[Point]) -> go.Figure:
    """Draw a row for each placement; origins are offset in it, and differ in colour and shape."""
    rows = list(dict.fromkeys(point.row for point in points))
    origins = [origin for origin in ORIGIN_COLOURS if any(point.origin == origin for point in points)]
    figure = go.Figure()
    for place, origin in enumerate(origins):
        mine = [point for point in points if point.origin == origin]
        offset = (place - (len(origins) - 1) / 2) * 0.3
        figure.add_scatter(
            name=origin,
            mode="markers",
            x=[point.change for point in mine],
            y=[rows.index(point.row) + offset for point in mine],
            error_x={
                "type": "data",
                "array": [point.high - point.change for point in mine],
                "arrayminus": [point.change - point.low for point in mine],
                "thickness": 2,
                "width": 5,
            },
            marker={"color": ORIGIN_COLOURS[origin], "symbol": ORIGIN_SYMBOLS[origin], "size": 11},
            customdata=[(point.label, point.tokens_per_s, point.note) for point in mine],
            hovertemplate="<b>%{customdata[0]}</b><br>%{x:+.1f} %, %{customdata[1]:,.0f} tok/s<br>"
            "%{customdata[2]}<extra></extra>",
        )
    figure.add_vline(x=0, line_color=FAINT, line_dash="dot")
    dress(figure, height=110 + _ROW_PX * len(rows), x_title="change in tokens/s (95 % interval)")
    figure.update_yaxes(tickvals=list(range(len(rows))), ticktext=rows, range=[len(rows) - 0.5, -0.5], showgrid=False)
    figure.update_xaxes(ticksuffix=" %")
    return figure


def _point(arm: Arm, found: Comparison | None) -> Point:
    value = sum(metric_value(run, found.metric if found else HEADLINE) for run in arm.runs) / len(arm.runs)
    if found is None:
        return Point(
            row=arm.name,
            origin=arm.origin,
            label=arm.label,
            tokens_per_s=value,
            change=0.0,
            low=0.0,
            high=0.0,
            note="the baseline",
        )
    low, high = found.found.bounds or (found.ratio, found.ratio)
    change, low, high = ((ratio - 1) * 100 for ratio in (found.ratio, low, high))
    return Point(
        row=arm.name,
        origin=arm.origin,
        label=arm.label,
        tokens_per_s=value,
        change=change,
        low=low,
        high=high,
        note=found.method,
    )

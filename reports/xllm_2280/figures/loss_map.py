"""Figure: who wins over concurrency and acceptance loss, a panel a machine, beside the loss that step times afford."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from simtool.report.figures.style import INK, dress
from xllm_2280.losses import LossAxis

_PANEL_PX = 250
_COLOURS = {"a lag placement": "#0072B2", "this-step": "#D55E00", "static": "#9aa5b1"}


@dataclass(frozen=True)
class LossMark:
    """One replayed point. lost: percent of tokens per step against this-step, in all. told: the lead is resolved."""

    panel: str
    concurrency: int
    lost: float
    winner: str
    told: bool


@dataclass(frozen=True)
class Contour:
    """The break-even of one panel: percent of tokens per step that can be lost, by concurrency, with its interval."""

    panel: str
    concurrencies: tuple[int, ...]
    affordable: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def loss_marks(axes: Sequence[LossAxis]) -> list[LossMark]:
    """Arrange the points of every axis."""
    return [
        LossMark(
            panel=axis.region.profile,
            concurrency=axis.region.concurrency,
            lost=100 * point.lost.mean,
            winner=axis.winner(point) if axis.winner(point) in _COLOURS else "a lag placement",
            told=point.lead.resolved,
        )
        for axis in axes
        for point in axis.points
    ]


def loss_contours(axes: Sequence[LossAxis]) -> list[Contour]:
    """Arrange what each machine can afford by concurrency."""
    found = []
    for panel in dict.fromkeys(axis.region.profile for axis in axes):
        mine = sorted((axis.region for axis in axes if axis.region.profile == panel), key=lambda r: r.concurrency)
        means = [region.affordable.mean for region in mine]
        lows = [
            m if region.affordable.low is None else region.affordable.low for m, region in zip(means, mine, strict=True)
        ]
        highs = [
            m if region.affordable.high is None else region.affordable.high
            for m, region in zip(means, mine, strict=True)
        ]
        shares = [tuple(100 * value for value in values) for values in (means, lows, highs)]
        found.append(Contour(panel, tuple(region.concurrency for region in mine), *shares))
    return found


def draw_loss_map(axes: Sequence[LossAxis]) -> go.Figure:
    """Draw the points coloured by winner, hollow where the lead is not told, and the affordable loss as a line."""
    marks, contours = loss_marks(axes), loss_contours(axes)
    figure = make_subplots(rows=len(contours), cols=1, subplot_titles=[contour.panel for contour in contours])
    for row, contour in enumerate(contours, start=1):
        mine = [mark for mark in marks if mark.panel == contour.panel]
        for winner, colour in _COLOURS.items():
            won = [mark for mark in mine if mark.winner == winner]
            figure.add_scatter(
                name=winner,
                legendgroup=winner,
                showlegend=row == 1,
                mode="markers",
                x=[str(mark.concurrency) for mark in won],
                y=[mark.lost for mark in won],
                marker={"symbol": ["square" if m.told else "square-open" for m in won], "size": 14, "color": colour},
                hovertemplate=f"<b>{winner}</b>, concurrency %{{x}}, loses %{{y:.1f}} %<extra></extra>",
                row=row,
                col=1,
            )
        figure.add_scatter(
            name="can afford",
            legendgroup="can afford",
            showlegend=row == 1,
            mode="lines+markers",
            x=[str(concurrency) for concurrency in contour.concurrencies],
            y=contour.affordable,
            error_y={
                "array": [high - mean for high, mean in zip(contour.high, contour.affordable, strict=True)],
                "arrayminus": [mean - low for low, mean in zip(contour.low, contour.affordable, strict=True)],
            },
            line={"color": INK, "dash": "dot"},
            marker={"color": INK, "size": 5},
            hovertemplate="concurrency %{x}: can afford %{y:.1f} %<extra></extra>",
            row=row,
            col=1,
        )
    dress(figure, height=120 + _PANEL_PX * len(contours), x_title="concurrency")
    figure.update_xaxes(type="category")
    figure.update_yaxes(title="tokens per step lost, %")
    figure.update_layout(margin_t=70)
    return figure

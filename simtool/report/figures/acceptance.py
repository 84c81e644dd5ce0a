"""Figures: how far drafts are accepted, and whether the confidence knows it, fresh and a step old."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from simtool.analysis.comparison.arms import Arm
from simtool.analysis.confidence import (
    PositionQuality,
    ReliabilityBin,
    autocorrelation,
    quality_by_position,
    reliability_over_positions,
)
from simtool.calibrate.drafted import blocks_of
from simtool.report.figures.style import FAINT, ORIGIN_COLOURS, dress

#: Accepted and refused blocks that a position needs before its AUC means anything.
_MIN_OUTCOMES = 10
_BLUE, _ORANGE, _GREEN = ORIGIN_COLOURS["live"], ORIGIN_COLOURS["modeled"], ORIGIN_COLOURS["imported"]


@dataclass(frozen=True)
class Acceptance:
    """What one run says. cut: whether there are blocks beyond those that were judged.

    autocorrelation: of a request's expected accepted drafts from block to block.
    """

    label: str
    blocks: int
    cut: bool
    positions: tuple[PositionQuality, ...]
    bins: tuple[ReliabilityBin, ...]
    autocorrelation: float | None


def acceptance(arms: Sequence[Arm]) -> Acceptance | None:
    """Judge the run that knows most outcomes (a full-width one, when there is one); None without confidence."""
    best: Acceptance | None = None
    known = 0
    for arm in arms:
        blocks = blocks_of(arm.traces[0])
        if blocks is not None and int(blocks.offered.sum()) > known:
            known = int(blocks.offered.sum())
            quality, bins = quality_by_position(blocks), reliability_over_positions(blocks)
            best = Acceptance(
                label=arm.label,
                blocks=len(blocks.match_run),
                cut=blocks.cut,
                positions=tuple(quality),
                bins=tuple(bins),
                autocorrelation=autocorrelation(blocks),
            )
    return best


def draw_acceptance(info: Acceptance) -> go.Figure:
    """Draw the share of blocks whose first k drafts were accepted, and what the confidence had forecast."""
    judged = [each for each in info.positions if each.blocks]
    figure = go.Figure()
    figure.add_bar(
        name="accepted",
        x=[each.position for each in judged],
        y=[each.accepted / each.blocks for each in judged],
        marker_color=_BLUE,
        customdata=[(each.accepted, each.blocks) for each in judged],
        hovertemplate="first %{x}: %{y:.1%} (%{customdata[0]} of %{customdata[1]})<extra></extra>",
    )
    figure.add_scatter(
        name="forecast by the confidence",
        mode="lines+markers",
        x=[each.position for each in judged],
        y=[each.mean_forecast for each in judged],
        line={"color": _ORANGE, "width": 2, "dash": "dash"},
        marker={"size": 8, "symbol": "diamond-open"},
        hovertemplate="first %{x}: %{y:.1%} forecast<extra></extra>",
    )
    dress(figure, height=340, x_title="draft position k", y_title="first k drafts accepted")
    figure.update_yaxes(range=[0, 1.02], tickformat=".0%")
    figure.update_xaxes(dtick=1)
    return figure


def draw_ranking(info: Acceptance) -> go.Figure:
    """Draw how well the confidence ranks blocks (AUC): this block's, and the one that a lag placement has.

    Positions with fewer than ten accepted or ten refused blocks are left out.
    """
    figure = go.Figure()
    traces = (
        ("this step's confidence", "auc", _BLUE, "circle", "solid"),
        ("the step before's", "lagged_auc", _ORANGE, "diamond-open", "dash"),
    )
    for name, attribute, colour, symbol, dash in traces:
        seen = [each for each in info.positions if getattr(each, attribute) is not None and _well_seen(each)]
        figure.add_scatter(
            name=name,
            mode="lines+markers",
            x=[each.position for each in seen],
            y=[getattr(each, attribute) for each in seen],
            line={"color": colour, "width": 2, "dash": dash},
            marker={"size": 9, "symbol": symbol},
            hovertemplate="position %{x}: AUC %{y:.3f}<extra></extra>",
        )
    figure.add_hline(y=0.5, line_color=FAINT, line_dash="dot", annotation_text="chance", annotation_font_color=FAINT)
    dress(figure, height=320, x_title="draft position k", y_title="AUC of the forecast")
    figure.update_xaxes(dtick=1)
    return figure


def draw_reliability(info: Acceptance) -> go.Figure:
    """Draw forecast against what came true; on the diagonal the confidence is calibrated."""
    figure = go.Figure()
    figure.add_scatter(
        name="calibrated", mode="lines", x=[0, 1], y=[0, 1], line={"color": FAINT, "dash": "dot"}, hoverinfo="skip"
    )
    figure.add_scatter(
        name="this confidence",
        mode="lines+markers",
        x=[each.mean_forecast for each in info.bins],
        y=[each.accepted / each.count for each in info.bins],
        line={"color": _GREEN, "width": 2},
        marker={"size": 9},
        customdata=[each.count for each in info.bins],
        hovertemplate="forecast %{x:.1%}, came true %{y:.1%} of %{customdata}<extra></extra>",
    )
    dress(figure, height=340, x_title="forecast: first k drafts accepted", y_title="came true")
    figure.update_xaxes(range=[0, 1.02], tickformat=".0%")
    figure.update_yaxes(range=[0, 1.02], tickformat=".0%")
    return figure


def _well_seen(quality: PositionQuality) -> bool:
    return min(quality.accepted, quality.blocks - quality.accepted) >= _MIN_OUTCOMES

"""Figures: what a lag costs in acceptance, by prompt kind and by position, and how long a confidence lasts."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from simtool.analysis.staleness import ALL, Persistence, Staleness
from simtool.report.figures.style import FAINT, dress

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def draw_loss(effects: Sequence[Staleness]) -> go.Figure:
    """Draw the loss of emitted length against the lag, one line a prompt kind, with its interval."""
    figure = go.Figure()
    for kind, colour in zip(_kinds(effects), _COLOURS, strict=False):
        mine = [effect for effect in effects if effect.kind == kind]
        figure.add_scatter(
            name=kind,
            mode="lines+markers",
            x=[effect.lag for effect in mine],
            y=[effect.loss.mean for effect in mine],
            error_y={
                "type": "data",
                "array": [effect.loss.half or 0.0 for effect in mine],
            },
            line={"color": colour, "width": 3 if kind == ALL else 1.5},
            hovertemplate=f"{kind}, lag %{{x}}: %{{y:.2%}} lost<extra></extra>",
        )
    figure.add_hline(y=0, line_color=FAINT, line_dash="dot")
    dress(figure, height=340, x_title="lag, steps", y_title="emitted length lost")
    figure.update_xaxes(dtick=1)
    figure.update_yaxes(tickformat=".1%")
    return figure


def draw_by_position(effects: Sequence[Staleness]) -> go.Figure:
    """Draw the share of sequence-steps that accept their k-th draft, one line a lag."""
    figure = go.Figure()
    every = [effect for effect in effects if effect.kind == ALL]
    for effect, colour in zip(every, _COLOURS, strict=False):
        figure.add_scatter(
            name=f"lag {effect.lag}",
            mode="lines+markers",
            x=list(range(1, len(effect.accepted_at) + 1)),
            y=[count / effect.sequence_steps for count in effect.accepted_at],
            line={"color": colour, "dash": "solid" if effect.lag == 0 else "dash"},
            hovertemplate=f"lag {effect.lag}, draft %{{x}}: %{{y:.1%}} accept it<extra></extra>",
        )
    dress(figure, height=340, x_title="draft position k", y_title="sequence-steps that accept draft k")
    figure.update_xaxes(dtick=1)
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    return figure


def draw_persistence(found: Sequence[Persistence]) -> go.Figure:
    """Draw how the expected accepted drafts correlate over distance, and each position's confidence, faintly."""
    figure = go.Figure()
    distances = [each.distance for each in found]
    for k in range(len(found[0].by_position)):
        figure.add_scatter(
            name="one position's confidence",
            legendgroup="position",
            showlegend=k == 0,
            mode="lines",
            x=distances,
            y=[each.by_position[k] for each in found],
            line={"color": FAINT, "width": 1},
            hovertemplate=f"position {k + 1}, %{{x}} steps: %{{y:.2f}}<extra></extra>",
        )
    figure.add_scatter(
        name="expected accepted drafts",
        mode="lines+markers",
        x=distances,
        y=[each.correlation for each in found],
        line={"color": _COLOURS[0], "width": 3},
        hovertemplate="%{x} steps: %{y:.2f}<extra></extra>",
    )
    figure.add_hline(y=0, line_color=FAINT, line_dash="dot")
    dress(figure, height=320, x_title="steps apart", y_title="correlation")
    figure.update_xaxes(dtick=1)
    return figure


def _kinds(effects: Sequence[Staleness]) -> list[str]:
    return list(dict.fromkeys(effect.kind for effect in effects))

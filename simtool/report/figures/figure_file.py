"""One figure as a file of its own."""

from __future__ import annotations

from pathlib import Path

import plotly.graph_objects as go

from simtool.files.writing import write_text


def save_figure(figure: go.Figure, path: Path) -> None:
    """Write a figure as an HTML file that needs nothing from outside."""
    write_text(path, figure.to_html(include_plotlyjs=True, config={"displayModeBar": False}))

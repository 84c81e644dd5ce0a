"""Colours and layout that all figures share. The palette is Okabe and Ito's, made for colour-blind readers too."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
INK, FAINT, GRID = "#1f2933", "#8a94a0", "#e6e9ed"

#: What was measured and what was computed look different, in colour and in shape.
ORIGIN_COLOURS = {"live": "#0072B2", "modeled": "#D55E00", "imported": "#009E73", "synthetic": "#CC79A7"}
ORIGIN_SYMBOLS = {"live": "circle", "modeled": "diamond-open", "imported": "square", "synthetic": "cross-open"}

#: Kinds of work, in the order of a step, and which ops are of each kind.
WORK_COLOURS = {
    "schedule and finish": "#9aa5b1",
    "draft": "#56B4E9",
    "decide": "#D55E00",
    "build the validate batch": "#E69F00",
    "target and verify": "#0072B2",
    "read tokens": "#009E73",
    "draft context": "#CC79A7",
    "other": "#5c6773",
}
_WORK: Mapping[str, tuple[str, ...]] = {
    "schedule and finish": ("schedule", "read_states", "finish"),
    "draft": (
        "build_query",
        "advance_query",
        "rebind_draft",
        "launch_draft",
        "draft",
        "launch_sample",
        "sample",
        "launch_tokens",
        "sample_tokens",
    ),
    "decide": (
        "read_confidence",
        "send_confidence",
        "await_confidence",
        "decide",
        "decide_budget",
        "split_budget",
        "store_confidence",
        "keep_confidence",
    ),
    "build the validate batch": (
        "build_dense",
        "build_varlen",
        "fill_dense",
        "fill_varlen",
        "fill_varlen_index",
        "build_fill_index",
        "scatter_fill",
        "build_budget",
        "compact_rows",
    ),
    "target and verify": ("rebind_target", "launch_target", "target", "launch_verify", "verify"),
    "read tokens": ("read_tokens", "send_tokens", "await_tokens"),
    "draft context": ("write_context", "context_kv", "extend_context", "context_all"),
}
_KIND_OF = {op: kind for kind, ops in _WORK.items() for op in ops}


def work_kind(op: str) -> str:
    """Return the kind of work of a host op or of device work; "other" for names from elsewhere."""
    return _KIND_OF.get(op, "other")


def dress(figure: go.Figure, *, height: int, x_title: str = "", y_title: str = "") -> go.Figure:
    """Give a figure the shared look; its width follows the page. Returns the same figure."""
    figure.update_layout(
        template="plotly_white",
        height=height,
        margin={"l": 8, "r": 12, "t": 16, "b": 8},
        font={"family": _FONT, "size": 13, "color": INK},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0, "title": None},
        hoverlabel={"font": {"family": _FONT}},
        bargap=0.25,
        dragmode=False,
    )
    figure.update_xaxes(title=x_title or None, automargin=True, gridcolor=GRID, zeroline=False)
    figure.update_yaxes(title=y_title or None, automargin=True, ticklabelstandoff=6, gridcolor=GRID, zeroline=False)
    return figure

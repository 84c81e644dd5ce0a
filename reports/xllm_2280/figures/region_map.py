"""Figure: which placement wins where: concurrency across, host time over device time upwards, a panel a load."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from simtool.report.figures.style import INK, dress
from xllm_2280.regions import Region

_COLOURS = ("#9aa5b1", "#D55E00", "#E69F00", "#56B4E9", "#0072B2", "#009E73", "#CC79A7", "#5c6773")


def draw_region_map(regions: Sequence[Region], placements: Sequence[str]) -> go.Figure:
    """Draw the winners as coloured cells with their gain over this-step; a tie with the runner-up is marked.

    placements: in the order of the colours.
    """
    loads = list(dict.fromkeys(region.load for region in regions))
    titles = [f"SL {load}" for load in loads]
    figure = make_subplots(rows=1, cols=len(loads), subplot_titles=titles, shared_yaxes=True)
    shown: set[str] = set()
    for place, load in enumerate(loads, start=1):
        mine = [region for region in regions if region.load == load]
        for index, name in enumerate(placements):
            won = [region for region in mine if region.winner == name]
            if not won:
                continue
            figure.add_scatter(
                name=name,
                legendgroup=name,
                showlegend=name not in shown,
                mode="markers+text",
                textposition="bottom center",
                x=[str(region.concurrency) for region in won],
                y=[_row(region) for region in won],
                text=[f"{(region.gain.ratio - 1) * 100:+.1f} %{' ≈' if region.tied else ''}" for region in won],
                marker={"symbol": "square", "size": 30, "color": _COLOURS[index % len(_COLOURS)]},
                textfont={"color": INK, "size": 11},
                customdata=[(region.runner_up, 100 * region.affordable.mean, 100 * region.lost.mean) for region in won],
                hovertemplate=f"<b>{name}</b>, next %{{customdata[0]}}<br>a lag can lose %{{customdata[1]:.1f}} %, "
                "loses %{customdata[2]:.1f} %<extra></extra>",
                row=1,
                col=place,
            )
            shown.add(name)
    rows = list(dict.fromkeys(_row(region) for region in regions))[::-1]
    dress(figure, height=190 + 74 * len(rows), x_title="concurrency")
    figure.update_xaxes(type="category", categoryarray=[str(c) for c in sorted({r.concurrency for r in regions})])
    figure.update_yaxes(type="category", categoryarray=rows)
    figure.update_layout(margin_t=90, legend_y=1.0 + 40 / (74 * len(rows)))
    return figure


def _row(region: Region) -> str:
    """The machine, without the load that its profile was fitted at: the panel says that."""
    return region.profile.removesuffix(f"-{region.load.slug}")

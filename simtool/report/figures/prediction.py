"""Figure: what the replay predicted against what was measured, for every arm that has both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from simtool.analysis.comparison.arms import Arm
from simtool.analysis.comparison.headline import HEADLINE, Metric
from simtool.analysis.comparison.runs import metric_value
from simtool.report.figures.style import INK, ORIGIN_COLOURS, dress

_ROW_PX = 64


@dataclass(frozen=True)
class Prediction:
    """One placement and batch shape. Values are means over runs; low and high span the measured runs."""

    row: str
    measured: float
    low: float
    high: float
    predicted: float
    runs: int

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.measured - 1

    @property
    def error_text(self) -> str:
        """The error in percent, never "-0.0"."""
        return f"{round(self.error * 100, 1) + 0.0:+.1f} %"


def predictions(arms: Sequence[Arm], metric: Metric = HEADLINE) -> list[Prediction]:
    """Match live arms with the modeled arms of the same placement and shape."""
    modeled = {arm.name: arm for arm in arms if arm.origin == "modeled"}
    result = []
    for arm in arms:
        twin = modeled.get(arm.name)
        if arm.origin == "live" and twin is not None:
            seen = [metric_value(run, metric) for run in arm.runs]
            told = [metric_value(run, metric) for run in twin.runs]
            mean, guess = sum(seen) / len(seen), sum(told) / len(told)
            result.append(
                Prediction(row=arm.name, measured=mean, low=min(seen), high=max(seen), predicted=guess, runs=len(seen))
            )
    return result


def draw_predictions(pairs: Sequence[Prediction]) -> go.Figure:
    """Draw a measured and a predicted bar a row, the error in words beside them."""
    figure = go.Figure()
    rows = [pair.row for pair in pairs]
    for name, values in (("modeled", [p.predicted for p in pairs]), ("live", [p.measured for p in pairs])):
        spans = {"array": [p.high - p.measured for p in pairs], "arrayminus": [p.measured - p.low for p in pairs]}
        figure.add_bar(
            name=name,
            orientation="h",
            y=rows,
            x=values,
            error_x={"type": "data", "thickness": 1.5, "color": INK, **spans} if name == "live" else {},
            marker={
                "color": ORIGIN_COLOURS[name],
                "pattern": {"shape": "/" if name == "modeled" else "", "fgcolor": "#ffffff", "size": 6},
            },
            text=[f"{p.error_text} off" for p in pairs] if name == "modeled" else None,
            textposition="outside",
            cliponaxis=False,
            hovertemplate=f"%{{y}}, {name}: %{{x:,.0f}} tok/s<extra></extra>",
        )
    dress(figure, height=110 + _ROW_PX * len(rows), x_title="tokens/s at full occupancy")
    figure.update_layout(barmode="group", legend_traceorder="reversed")
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_xaxes(range=[0, 1.2 * max((max(pair.high, pair.predicted) for pair in pairs), default=1)])
    return figure
